// Flows of every door, drawn at random, in processes that die between any two commits.
import { expect } from 'vitest'
import type { Random } from '../../src/base/random.ts'
import { seededRandom, Sluice } from '../../src/exports/index.ts'
import { createManualClock, type ManualClock } from '../../src/exports/testing.ts'
import { mortalStore } from '../flows/mortal-store.ts'
import type { StoreKind } from '../stores.ts'
import {
  BUDGETS,
  codeOf,
  drawPlan,
  HELD,
  leastMsOf,
  type Plan,
  resultOf,
  signalsOf,
  type Start,
  type Witness,
} from './flow-plans.ts'

const SLOTS = 4
const LEASE = '10s'
const DAY_S = 86_400

/** The counts of one run. */
export interface Simulated {
  readonly flows: number
  readonly deaths: number
  readonly repeated: number
}

/** Runs the flows of one seed, and checks that each ends right. */
export async function simulateFlows(seed: number, store: StoreKind): Promise<Simulated> {
  const random = seededRandom(seed)
  const below = (n: number): number => Math.floor(random.next() * n)
  const clock = createManualClock({ enterAlways: random.next() < 0.2 })
  const url = store.create()
  const witness: Witness = { nowUs: () => clock.monotonicUs(), starts: [] }
  const plans = Array.from({ length: 1 + below(4) }, (_, at) => drawPlan(random, at))
  const client = engine(url, plans, witness, clock)
  const flows: SimulatedFlow[] = []
  for (const plan of plans) {
    const definition = client.workflows.find(({ name }) => name === plan.name)!
    for (let n = 1 + below(4); n > 0; n--) {
      const { id } = await definition.start({ n: 0 })
      flows.push({ id, plan, isCancelled: false })
    }
  }
  const sent = new Set<string>()
  const sendSome = async (): Promise<void> => {
    for (const { id, plan } of flows)
      for (const [n, name] of signalsOf(plan).entries()) {
        const once = `${id} ${n}`
        if (sent.has(once) || random.next() < 0.5) continue
        sent.add(once)
        await client.sluice.flows.signal(id, name, { n }, { once }).catch(hasEnded)
        // The answer of a signal may be lost, and its sender then sends it again.
        if (random.next() < 0.3) await client.sluice.flows.signal(id, name, { n }, { once }).catch(hasEnded)
      }
  }
  const cancelOne = async (): Promise<void> => {
    const flow = flows[below(flows.length * 20)]
    if (flow && (await client.sluice.flows.cancel(flow.id))) flow.isCancelled = true
  }
  const lives = below(7)
  let deaths = 0
  for (let life = 0; life < lives; life++) {
    const { mortal, neighbour } = await oneLife(random, url, plans, witness, clock)
    // It may be dead before it works.
    await mortal.sluice.start().catch(() => undefined)
    await neighbour?.sluice.start()
    for (let step = 0; step < 6; step++) {
      await sendSome()
      await cancelOne()
      await clock.advance(`${1 + below(3000)}ms`)
    }
    mortal.kill()
    deaths++
    await stop(mortal.sluice, clock)
    if (neighbour) await stop(neighbour.sluice, clock)
  }
  const last = engine(url, plans, witness, clock)
  await last.sluice.start()
  for (
    let tries = 0;
    sent.size < flows.reduce((all, { plan }) => all + signalsOf(plan).length, 0) && tries < 100;
    tries++
  )
    await sendSome()
  await clock.advance('10m')
  for (const flow of flows) await checkResult(seed, last.sluice, flow)
  const repeated = checkStarts(seed, flows, witness.starts, deaths)
  await checkEnd(seed, last.sluice)
  await stop(last.sluice, clock)
  await client.sluice.stop({ within: 0 })
  return { flows: flows.length, deaths, repeated }
}

/** It ends as its plan says, and no earlier than its sleeps allow, or it has been cancelled. */
async function checkResult(seed: number, sluice: Sluice, { id, isCancelled, plan }: SimulatedFlow): Promise<void> {
  const found = await sluice.flows.inspect(id)
  const ends = { seed, plan: plan.name, state: 'completed', error: null, result: resultOf(plan) }
  const cancelled = { ...ends, state: 'cancelled', error: found?.error, result: null }
  const { error, finishedAt, result, state } = found ?? {}
  expect({ seed, plan: plan.name, state, error, result }).toEqual(isCancelled ? cancelled : ends)
  const tookMs = (finishedAt?.getTime() ?? Number.NaN) - (found?.createdAt.getTime() ?? Number.NaN)
  if (!isCancelled) expect({ seed, isEarly: !(tookMs >= leastMsOf(plan) - 1) }).toEqual({ seed, isEarly: false })
}

/** The flow may have ended by the first signal, or by a cancel. */
function hasEnded(error: unknown): void {
  if ((error as { code?: unknown }).code !== 'flow.ended') throw error
}

interface SimulatedFlow {
  readonly id: string
  readonly plan: Plan
  isCancelled: boolean
}

interface Process {
  readonly sluice: Sluice
  readonly workflows: ReturnType<typeof codeOf>['workflows']
}

function engine(
  store: ConstructorParameters<typeof Sluice>[0]['store'],
  plans: readonly Plan[],
  witness: Witness,
  clock: ManualClock,
): Process {
  const { tasks, workflows } = codeOf(plans, witness)
  const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined }
  const queues = { default: { concurrency: SLOTS } }
  return {
    workflows,
    sluice: new Sluice({
      store,
      tasks,
      workflows,
      clock,
      lease: LEASE,
      queues,
      limits: [...Object.values(BUDGETS), HELD],
      logger: silent,
    }),
  }
}

/** A process that dies at one of its calls of the store, before or after it is done, and perhaps a healthy one beside it. */
async function oneLife(
  random: Random,
  url: string,
  plans: readonly Plan[],
  witness: Witness,
  clock: ManualClock,
): Promise<{ mortal: Process & { kill: () => void }; neighbour: Process | null }> {
  let left = Math.floor(random.next() * 30)
  const when = random.next() < 0.5 ? 'before' : 'after'
  const { store, kill } = await mortalStore(url, clock, { when, call: 'any', fits: () => left-- === 0 })
  const neighbour = random.next() < 0.3 ? engine(url, plans, witness, clock) : null
  return { mortal: { ...engine(store, plans, witness, clock), kill }, neighbour }
}

/** A step is repeated only because of a death, its key is one, and no budget is exceeded. */
function checkStarts(seed: number, all: readonly SimulatedFlow[], starts: readonly Start[], deaths: number): number {
  const flows = all.filter(({ isCancelled }) => !isCancelled)
  const ids = new Set(flows.map(({ id }) => id))
  const own = starts.filter(({ flow }) => ids.has(flow))
  const keys = new Set(own.map(({ key }) => key))
  const steps = flows.reduce(
    (sum, { plan }) => sum + (plan.isAgain ? 2 : 1) * plan.groups.flat().filter(({ kind }) => kind === 'step').length,
    0,
  )
  expect({ seed, keys: keys.size }).toEqual({ seed, keys: steps })
  checkHeld(seed, flows, own)
  const repeated = [...keys].reduce((all, key) => {
    const its = own.filter((start) => start.key === key)
    return all + Math.max(0, its.length - (its[0]?.wanted ?? 0))
  }, 0)
  expect({ seed, isBounded: repeated <= deaths * SLOTS }).toEqual({ seed, isBounded: true })
  const at = (budget: string): number[] => starts.flatMap(({ limit, atUs }) => (limit === budget ? [atUs] : []))
  expectWithin(seed, at('rate'), (us) => 5 + (20 * us) / 1e6)
  expectWithin(seed, at('window'), (us) => 15 * (Math.floor(us / 1e6) + 1))
  return repeated
}

/** Of the flows of a plan that is held one ends before the next one begins. */
function checkHeld(seed: number, flows: readonly SimulatedFlow[], starts: readonly Start[]): void {
  for (const name of new Set(flows.flatMap(({ plan }) => (plan.isHeld ? [plan.name] : [])))) {
    const spans = flows
      .filter(({ plan }) => plan.name === name)
      .map(({ id }) => starts.flatMap(({ atUs, flow }) => (flow === id ? [atUs] : [])))
      .filter((times) => times.length > 0)
      .map((times) => ({ from: Math.min(...times), to: Math.max(...times) }))
      .toSorted((a, b) => a.from - b.from)
    const together = spans.slice(1).filter(({ from }, at) => from < (spans[at]?.to ?? 0))
    expect({ seed, plan: name, together }).toEqual({ seed, plan: name, together: [] })
  }
}

function expectWithin(seed: number, starts: readonly number[], most: (us: number) => number): void {
  const sorted = starts.toSorted((a, b) => a - b)
  for (const [i, from] of sorted.entries())
    for (let j = i; j < sorted.length && sorted[j]! - from < 3e6; j++)
      if (j - i + 1 > most(sorted[j]! - from) + 1e-6)
        throw new Error(`seed ${seed}: ${j - i + 1} starts within ${sorted[j]! - from} µs`)
}

/** Nothing is left: no job that waits, no permit. */
async function checkEnd(seed: number, sluice: Sluice): Promise<void> {
  const open = await sluice.jobs.list({ states: ['available', 'pending', 'active', 'retryable', 'scheduled'] })
  expect({ seed, open }).toEqual({ seed, open: [] })
  const running = await sluice.flows.list({ states: ['running'] })
  expect({ seed, running }).toEqual({ seed, running: [] })
  for (const { name } of [BUDGETS.slots, HELD])
    for (const { active, key } of await sluice.limits.inspect(name))
      expect({ seed, name, key, held: active }).toEqual({ seed, name, key, held: 0 })
}

async function stop(sluice: Sluice, clock: ManualClock): Promise<void> {
  const end = { reached: false }
  const stopping = sluice
    .stop({ within: 0 })
    .catch(() => undefined)
    .finally(() => (end.reached = true))
  await clock.advance(0)
  for (let waited = 0; !end.reached && waited < DAY_S; waited++) await clock.advance('500ms')
  await stopping
}
