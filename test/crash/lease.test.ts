import { expect, test } from 'vitest'
import { everyStore } from '../stores.ts'
import { callTask } from './tasks.ts'
import { Fleet, pause, until } from './fleet.ts'
import { Observer } from './observer.ts'

const LEASE_MS = 500

/** An observer whose answers wait until the test gives them. */
class Patient {
  readonly observer: Observer = new Observer(async ({ attempt }) => {
    await until(`attempt ${attempt} may end`, () => this.#results.has(attempt))
    return this.#results.get(attempt) ?? ''
  })
  readonly #results = new Map<number, string>()

  /** The end that the run of this attempt is to have. */
  end(attempt: number, result: string): void {
    this.#results.set(attempt, result)
  }

  async started(attempt: number): Promise<void> {
    // The row of a job whose worker was stopped amid a heartbeat is locked until the server ends that transaction; then comes the next probe.
    await until(`attempt ${attempt} has started`, () => this.observer.starts.length >= attempt)
    expect(this.observer.starts.map((start) => start.attempt)).toEqual(Array.from({ length: attempt }, (_, i) => i + 1))
  }
}

const STORES = await everyStore('leases of real processes')
const LATE_SETTLES = STORES.flatMap((kind) =>
  ['while the job runs again', 'after the job has ended'].map((when) => ({ kind, when, store: kind.name })),
)

test.each(LATE_SETTLES)(
  'a worker that was stopped past its lease settles $when, on $store: it is refused, and told so',
  async ({ kind, when }) => {
    const fleet = new Fleet(kind.vacant())
    const patient = new Patient()
    const url = await patient.observer.listen()
    const call = callTask()
    const engine = fleet.engine([call])
    const { id } = await call.enqueue({ tenant: 'a' })
    const held = async (): Promise<number | undefined> => (await engine.limits.inspect('fleet'))[0]?.active

    const first = fleet.worker(url, { lease: `${LEASE_MS}ms` })
    await patient.started(1)
    fleet.sleep(first)
    await pause(LEASE_MS + 50)
    const second = fleet.worker(url, { lease: `${LEASE_MS}ms` })
    await patient.started(2)
    const lateSettle = async (): Promise<void> => {
      patient.end(1, 'of the first run')
      fleet.wake(first)
      await until('the first worker learns that its lease was lost', () => fleet.lost.length > 0)
    }
    if (when === 'while the job runs again') {
      await lateSettle()
      expect(await engine.jobs.get(id)).toMatchObject({ state: 'active', attempt: 2 })
      expect(await held(), 'the permit of the second run').toBe(1)
    }
    patient.end(2, 'of the second run')
    await until('the job is completed', async () => (await engine.jobs.get(id))?.state === 'completed')
    if (when === 'after the job has ended') await lateSettle()
    await fleet.stop(first)
    await fleet.stop(second)

    expect(await engine.jobs.get(id)).toMatchObject({ state: 'completed', attempt: 2, result: 'of the second run' })
    expect(await held()).toBe(0)
    expect(fleet.lost).toEqual([`${first.name} ${id} 1`])
    expect(patient.observer.starts.map(({ worker }) => worker)).toEqual([first.name, second.name])
    expect(fleet.accidents).toEqual([])
  },
)

test.each(STORES)('a handler whose lease was lost is aborted, on $name, while the job runs again', async (kind) => {
  const fleet = new Fleet(kind.vacant())
  const patient = new Patient()
  const url = await patient.observer.listen()
  const call = callTask()
  const engine = fleet.engine([call])
  const { id } = await call.enqueue({ tenant: 'a' })
  const first = fleet.worker(url, { lease: `${LEASE_MS}ms` })
  await patient.started(1)
  fleet.sleep(first)
  await pause(LEASE_MS + 50)
  const second = fleet.worker(url, { lease: `${LEASE_MS}ms` })
  await patient.started(2)
  fleet.wake(first)
  await until('the first handler is aborted', () => fleet.aborted.length > 0)
  expect(fleet.aborted).toEqual([`${first.name} ${id} 1`])
  patient.end(2, 'of the second run')
  await until('the job is completed', async () => (await engine.jobs.get(id))?.state === 'completed')
  patient.end(1, 'of the first run')
  await fleet.stop(first)
  await fleet.stop(second)
  expect(await engine.jobs.get(id)).toMatchObject({ attempt: 2, result: 'of the second run' })
  expect(fleet.accidents).toEqual([])
})

test.each(STORES)('the next start takes back a killed worker’s job at once, on $name', async (kind) => {
  const fleet = new Fleet(kind.vacant())
  const patient = new Patient()
  const url = await patient.observer.listen()
  const call = callTask()
  const engine = fleet.engine([call])
  const { id } = await call.enqueue({ tenant: 'a' })
  const first = fleet.worker(url)
  await patient.started(1)
  await fleet.kill(first)
  patient.end(1, 'of the first run')
  expect(await engine.jobs.get(id)).toMatchObject({ state: 'active', attempt: 1 })

  const second = fleet.worker(url)
  await until('the second worker is at work', () => second.ready)
  const readyMs = performance.now()
  await patient.started(2)
  // Sooner than the first of its regular probes, which come every 5 s.
  expect(performance.now() - readyMs, 'ms from its start to the job’s').toBeLessThan(5000)
  patient.end(2, 'of the second run')
  await until('the job is completed', async () => (await engine.jobs.get(id))?.state === 'completed')
  await fleet.stop(second)
  expect(await engine.jobs.get(id)).toMatchObject({ attempt: 2, result: 'of the second run' })
  expect(patient.observer.starts).toHaveLength(2)
  expect(fleet.accidents).toEqual([])
})
