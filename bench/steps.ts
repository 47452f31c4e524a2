// Steps of durable flows per second at concurrency 100: bodies, machines with limits that never bite, graphs; what it
// costs to enter a body again; and how long a flow waits for its first step. On SQLite, or with POSTGRES=url on that
// server, in a schema of its own. Run it with: npx node bench/steps.ts
import { Client } from 'pg'
import { graph, machine, workflow, type Startable } from '../src/exports/flows.ts'
import { input, limit, Sluice } from '../src/exports/index.ts'
import { measure, nowMs, type Numbers, quantile } from './measure.ts'

const FLOWS = Number(process.env['FLOWS'] ?? 1000)
const POSTGRES = process.env['POSTGRES']
const SCHEMA = 'bench_steps'
const never = limit('never-bites', { rate: 1_000_000_000, per: '1s' })

interface Given {
  readonly i: number
}

const body = (steps: number): Startable<Given, number> =>
  workflow(`body-${steps}`, input<Given>(), {
    async run({ i }, flow) {
      let sum = 0
      for (let n = 0; n < steps; n++) sum += await flow.step(`s${n}`, () => i)
      return sum
    },
  })
const limited = workflow('limited', input<Given>(), {
  async run({ i }, flow) {
    let sum = 0
    for (let n = 0; n < 10; n++) sum += await flow.step(`s${n}`, { limits: [never.key(i % 100)] }, () => i)
    return sum
  },
})
const rounds = (name: string, keys: number): Startable<Given & { readonly left: number }, number> =>
  machine(name, {
    states: { step: input<Given & { left: number }>() },
    first: 'step',
    limits: { step: [never.by(({ i }: Given) => i % keys)] },
    run: {
      step: ({ i, left }, to) => (left > 1 ? to.next('step', { i, left: left - 1 }) : to.done(i)),
    },
  })
const oneKey = rounds('machine-1', 1)
const manyKeys = rounds('machine-100', 100)
const line = graph('line', input<Given>())
  .step('a', ({ input: { i } }) => i)
  .after('a')
  .step('b', ({ a }) => a)
  .after('b')
  .step('c', ({ b }) => b)
  .output(({ c }) => c)
const entered = workflow('entered', input<{ remembered: number }>(), {
  async run({ remembered }, flow) {
    for (let n = 0; n < remembered; n++) await flow.step(`s${n}`, () => n)
    for (let n = 0; n < ENTRIES; n++) await flow.step(`limited ${n}`, { limits: [never.key('entered')] }, () => n)
  },
})
const ENTRIES = 20
const [three, ten] = [body(3), body(10)]

/** Steps per second of flows that are started at once. */
async function pace<I>(of: Startable<I, number>, inputs: readonly I[], steps: number): Promise<number> {
  const startMs = nowMs()
  const flows = []
  for (let i = 0; i < inputs.length; i += 500) flows.push(...(await of.startMany(inputs.slice(i, i + 500))))
  await Promise.all(flows.map((flow) => flow.result()))
  return (inputs.length * steps) / ((nowMs() - startMs) / 1000)
}

async function entry(remembered: number): Promise<number> {
  const flow = await entered.start({ remembered: 0 })
  await flow.result()
  const took = async (given: number): Promise<number> => {
    const startMs = nowMs()
    await (await entered.start({ remembered: given })).result()
    return nowMs() - startMs
  }
  const steps = await took(remembered)
  return steps / (remembered + ENTRIES)
}

async function firstSteps(sluice: Sluice): Promise<Numbers> {
  const begun = new Map<string, number>()
  const stop = sluice.on('step.started', ({ id }) => {
    if (!begun.has(id)) begun.set(id, nowMs())
  })
  const waits: number[] = []
  for (let i = 0; i < 200; i++) {
    const startMs = nowMs()
    const flow = await three.start({ i })
    await flow.result()
    waits.push((begun.get(flow.id) ?? Number.NaN) - startMs)
  }
  stop()
  return { 'start to first step, ms p50': quantile(waits, 0.5), 'start to first step, ms p99': quantile(waits, 0.99) }
}

async function erase(): Promise<void> {
  if (POSTGRES === undefined) return
  const client = new Client({ connectionString: POSTGRES })
  await client.connect()
  await client.query(`DROP SCHEMA IF EXISTS ${SCHEMA} CASCADE`)
  await client.end()
}

await measure(`Steps of ${FLOWS} flows at concurrency 100`, async (path) => {
  await erase()
  const sluice = new Sluice({
    store: POSTGRES === undefined ? `sqlite:${path}` : `${POSTGRES}?schema=${SCHEMA}`,
    tasks: [],
    workflows: [three, ten, limited, oneKey, manyKeys, line, entered],
    queues: { default: { concurrency: 100 } },
  })
  await sluice.start()
  const given = Array.from({ length: FLOWS }, (_, i) => ({ i }))
  const looped = given.map(({ i }) => ({ i, left: 10 }))
  const numbers: Record<string, number> = {
    'steps/s, bodies of 3 steps': await pace(three, given, 3),
    'steps/s, bodies of 10 steps': await pace(ten, given, 10),
    'steps/s, bodies of 10 limited steps': await pace(limited, given, 10),
    'steps/s, machine, one key': await pace(oneKey, looped, 10),
    'steps/s, machine, 100 keys': await pace(manyKeys, looped, 10),
    'steps/s, graph of 3 steps': await pace(line, given, 3),
    ...(await firstSteps(sluice)),
  }
  for (const remembered of [10, 100, 1000]) numbers[`ms a step, ${remembered} remembered`] = await entry(remembered)
  await sluice.stop()
  await erase()
  return numbers
})
