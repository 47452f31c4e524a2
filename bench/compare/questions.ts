// The same measurements for every engine.
import { setTimeout as sleep } from 'node:timers/promises'
import { WorkerProcesses } from './processes.ts'
import { type Engine, nowUs, type Payload, type Setting, type Side } from './engine.ts'

/** The size of the measurements. */
export interface Size {
  readonly jobs: number
  readonly seconds: number
  readonly backlog: number
}

/** One engine with one profile, in a space of its own. */
export interface Subject {
  readonly name: string
  readonly engine: Engine
  readonly setting: Setting
}

/** The results of one run by name. Names end in `ms` if a lower number is better. */
export type Numbers = Readonly<Record<string, number>>

type Question = (subject: Subject, size: Size) => Promise<Numbers>

const BULK = 1000
const IN_FLIGHT = 100
const PATIENCE_MS = 180_000
/** Twice the rate of tenant B, so its own budget never delays B. */
const TENANT_PER_SECOND = 20

/** Every question by its name. */
export const QUESTIONS: Readonly<Record<string, Question>> = {
  drain1: (subject, size) => drain(subject, size, 1),
  drain2: (subject, size) => drain(subject, size, 2),
  enqueue,
  pickup,
  tenants,
}

async function drain(subject: Subject, { jobs }: Size, processes: number): Promise<Numbers> {
  return withSide(subject, async (side) => {
    await fill(side, jobs, (n) => ({ n }))
    const workers = await WorkerProcesses.start({ engine: subject.name, setting: subject.setting }, processes)
    const startUs = nowUs()
    await workers.go()
    const all = await workers.done(jobs, PATIENCE_MS)
    const seconds = (nowUs() - startUs) / 1e6
    const { ran } = workers
    await workers.stop()
    return { [`drain, ${processes} process${processes > 1 ? 'es' : ''}, jobs/s`]: (all ? jobs : ran) / seconds }
  })
}

async function enqueue(subject: Subject, { jobs }: Size): Promise<Numbers> {
  return withSide(subject, async (side) => {
    await side.enqueue({ n: 0 })
    const single = Math.min(jobs, 20_000)
    let startUs = nowUs()
    let next = 0
    const producer = async (): Promise<void> => {
      while (next < single) await side.enqueue({ n: next++ })
    }
    await Promise.all(Array.from({ length: IN_FLIGHT }, producer))
    const inFlight = single / ((nowUs() - startUs) / 1e6)
    startUs = nowUs()
    await fill(side, jobs, (n) => ({ n }))
    const bulk = jobs / ((nowUs() - startUs) / 1e6)
    return { [`enqueue, ${IN_FLIGHT} in flight, jobs/s`]: inFlight, [`enqueue, ${BULK} a call, jobs/s`]: bulk }
  })
}

/** Producer and worker are separate processes: in one process the pick-up would need no notification. */
async function pickup(subject: Subject, { seconds }: Size): Promise<Numbers> {
  return withSide(subject, async (side) => {
    const workers = await WorkerProcesses.start({ engine: subject.name, setting: subject.setting }, 1)
    await workers.go()
    const jobs = await pace(seconds * 1000, 10, (n) => side.enqueue({ n, atUs: nowUs() }))
    await workers.done(jobs, PATIENCE_MS)
    await workers.stop()
    const steady = workers.waits.slice(50).map(({ waitMs }) => waitMs)
    return { 'pick-up at 100/s, p50 ms': quantile(steady, 0.5), 'pick-up at 100/s, p99 ms': quantile(steady, 0.99) }
  })
}

async function tenants(plain: Subject, { seconds, backlog }: Size): Promise<Numbers> {
  const subject = { ...plain, setting: { ...plain.setting, tenantPerSecond: TENANT_PER_SECOND } }
  return withSide(subject, async (side) => {
    await fill(side, backlog, (n) => ({ n, tenant: 'a' }))
    const workers = await WorkerProcesses.start({ engine: subject.name, setting: subject.setting }, 1)
    await workers.go()
    const sent = await pace(seconds * 1000, 100, (n) => side.enqueue({ n, tenant: 'b', atUs: nowUs() }))
    await sleep(1000)
    await workers.stop()
    const waits = workers.waits.filter(({ tenant }) => tenant === 'b').map(({ waitMs }) => waitMs)
    const never = Array.from({ length: sent - waits.length }, () => Infinity)
    const all = [...waits, ...never]
    return {
      'tenant B beside A’s backlog, p50 ms': quantile(all, 0.5),
      'tenant B beside A’s backlog, p99 ms': quantile(all, 0.99),
      'tenant B’s jobs started, %': (100 * waits.length) / sent,
      'tenant A’s budget used, %': (100 * (workers.ran - waits.length)) / (TENANT_PER_SECOND * (seconds + 2)),
    }
  })
}

async function withSide(subject: Subject, ask: (side: Side) => Promise<Numbers>): Promise<Numbers> {
  const { engine, setting } = subject
  await engine.erase(setting)
  const side = await engine.open(setting)
  try {
    return await ask(side)
  } finally {
    await side.close()
    await engine.erase(setting)
  }
}

async function fill(side: Side, jobs: number, payload: (n: number) => Payload): Promise<void> {
  for (let n = 0; n < jobs; n += BULK)
    await side.enqueueMany(Array.from({ length: Math.min(BULK, jobs - n) }, (_, i) => payload(n + i)))
}

/** Sends at a steady pace, without waiting for answers. @returns the number sent */
async function pace(forMs: number, everyMs: number, send: (n: number) => Promise<unknown>): Promise<number> {
  const startUs = nowUs()
  const sent: Promise<unknown>[] = []
  for (let n = 0; n * everyMs < forMs; n++) {
    await sleep(Math.max(0, (startUs + n * everyMs * 1000 - nowUs()) / 1000))
    sent.push(send(n))
  }
  await Promise.all(sent)
  return sent.length
}

function quantile(values: readonly number[], fraction: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? Number.NaN
}
