import { expect, test } from 'vitest'
import { call, seededRandom } from '../../src/exports/index.ts'
import { Fleet, pause, until } from './fleet.ts'
import { stepTask } from './tasks.ts'

const KILLS = 12
const CHAINS = 12
const STEPS = 6
const BATCHES = 8
const JOBS = 10
const SEED = 11

test(`${KILLS} kills lose no step of a flow, hand on every result, and call each callback once`, async () => {
  const random = seededRandom(SEED)
  const fleet = new Fleet()
  const step = stepTask()
  const engine = fleet.engine([step])
  const later = () => call(step, Math.floor(random.next() * 20))
  const many = (count: number) => Array.from({ length: count }, later)
  const flows: string[] = []
  const startSome = async (): Promise<void> => {
    for (let i = 0; i < CHAINS / 2; i++)
      flows.push((await engine.flows.start({ kind: 'chain', steps: many(STEPS) })).id)
    for (let i = 0; i < BATCHES / 2; i++) {
      const callbacks = { onSuccess: later(), onFailure: later(), onComplete: later() }
      flows.push((await engine.flows.start({ kind: 'batch', jobs: many(JOBS), callbacks })).id)
    }
  }
  await startSome()
  let interrupted = 0
  for (let kills = 0; kills < KILLS; kills++) {
    const victim = fleet.flowWorker()
    await until(`${victim.name} is at work`, () => victim.ready)
    await pause(random.next() * 60)
    await fleet.kill(victim)
    if ((await engine.jobs.list({ states: ['active'] })).length > 0) interrupted++
    expect(fleet.look().faults).toEqual([])
    if (kills === KILLS / 2) await startSome()
  }
  const last = fleet.flowWorker()
  for (const id of flows)
    await until(`the flow ${id} has completed`, async () => (await engine.flows.get(id))?.state === 'completed')
  await until('no job waits', async () => (await engine.jobs.list({ states: ['available', 'active'] })).length === 0)
  await fleet.stop(last)

  expect(fleet.accidents).toEqual([])
  for (const id of flows) {
    const jobs = await engine.flows.jobs(id)
    const told = jobs.map(({ state, result, flow }) => [flow?.callback ?? flow?.node, state, result])
    expect(told).toEqual(
      (await engine.flows.get(id))?.kind === 'chain'
        ? Array.from({ length: STEPS }, (_, node) => [node, 'completed', { node, handed: node }])
        : [
            ...Array.from({ length: JOBS }, (_, node) => [node, 'completed', { node, handed: 0 }]),
            ['success', 'completed', { node: JOBS, handed: JOBS }],
            ['failure', 'cancelled', null],
            ['complete', 'completed', { node: JOBS + 2, handed: JOBS }],
          ],
    )
  }
  expect(fleet.look()).toEqual({ faults: [], jobs: CHAINS * STEPS + BATCHES * (JOBS + 3) })
  // Else the kills met no work.
  expect(interrupted).toBeGreaterThanOrEqual(KILLS / 3)
})
