import { once } from 'node:events'
import { expect, test } from 'vitest'
import { seededRandom } from '../../src/exports/index.ts'
import { Fleet, pause, until } from './fleet.ts'
import { noteTask } from './tasks.ts'

const ROUNDS = 8
/** An enqueuer has at most one call on its way, of at most this many jobs. */
const ON_ITS_WAY = 3
const SEED = 7
const UNFINISHED = ['available', 'active', 'retryable'] as const

test(`what ${ROUNDS} killed processes had acknowledged is stored, and runs`, async () => {
  const random = seededRandom(SEED)
  const fleet = new Fleet()
  const note = noteTask()
  const engine = fleet.engine([note])
  const acknowledged: string[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const enqueuer = fleet.enqueuer()
    const { stdout } = enqueuer.child
    if (!stdout) throw new Error('the enqueuer has no standard output')
    const enough = 1 + Math.floor(random.next() * 100)
    const laterMs = random.next() * 2
    let text = ''
    stdout.setEncoding('utf8').on('data', (piece: string) => {
      text += piece
      if (text.split('\n').length > enough) void pause(laterMs).then(() => fleet.kill(enqueuer))
    })
    await once(enqueuer.child, 'close')
    expect(fleet.accidents).toEqual([])
    const ids = text.split('\n').slice(0, -1)
    expect(ids.length).toBeGreaterThanOrEqual(enough)
    for (const id of ids) expect(await engine.jobs.get(id), `${id} of round ${round}`).not.toBeNull()
    acknowledged.push(...ids)
    const { faults, jobs } = fleet.look()
    expect(faults).toEqual([])
    expect(jobs - acknowledged.length, 'jobs that nobody was told of').toBeLessThanOrEqual((round + 1) * ON_ITS_WAY)
  }
  expect(new Set(acknowledged).size).toBe(acknowledged.length)

  await engine.start()
  for (const id of acknowledged)
    await until(`${id} is completed`, async () => (await engine.jobs.get(id))?.state === 'completed')
  // Those that were stored and never acknowledged run too.
  await until('no job waits', async () => (await engine.jobs.list({ states: UNFINISHED })).length === 0)
  expect(fleet.accidents).toEqual([])
})
