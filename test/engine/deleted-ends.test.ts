// Runs whose end deletes their job, while the answers of the server are lost or late.
import { expect, onTestFinished, test } from 'vitest'
import { createHttpApp } from '../../src/exports/http.ts'
import { input, silentLogger, Sluice, type SluiceOptions, task } from '../../src/exports/index.ts'
import type { Json } from '../http/http-harness.ts'
import { PostgresProxy } from '../postgres-proxy.ts'
import { onPostgres } from '../stores.ts'

const postgres = await onPostgres('answers to ends that delete their job')
const DELETES = /\bcomplete_and_delete\(/

/** An engine behind a network that a test may spoil; it keeps no completed job. */
async function behindProxy(options: Pick<SluiceOptions, 'tasks'>, parameters = '') {
  const proxy = await PostgresProxy.before(postgres!.create())
  const store = `${proxy.url}${parameters}`
  const engine = new Sluice({ store, retention: { completed: 0 }, logger: silentLogger, ...options })
  onTestFinished(() => engine.stop({ within: 0 }))
  await engine.start()
  return { proxy, engine }
}

test.skipIf(!postgres)(
  'an end whose answer is lost is told once, as completed, and its job does not run again',
  async () => {
    const ends: string[] = []
    let runs = 0
    const work = task('work.item', input<number>(), {
      run: (n) => ++runs && n,
      onCompleted: (result) => void ends.push(`called ${String(result)}`),
    })
    const { proxy, engine } = await behindProxy({ tasks: [work] })
    for (const name of ['job.completed', 'job.lease_lost', 'job.failed'] as const)
      engine.on(name, () => void ends.push(name))
    expect(await (await work.enqueue(1)).result()).toBe(1)
    let lost = 0
    proxy.losesAnswerTo = (sent) => DELETES.test(sent) && ++lost > 0
    const job = await work.enqueue(2)
    expect(await job.result({ timeout: '30s' })).toBe(2)
    expect([lost, runs]).toEqual([1, 2])
    expect(ends).toEqual(['job.completed', 'called 1', 'job.completed', 'called 2'])
    expect(await engine.jobs.get(job.id)).toBeNull()
  },
)

test.skipIf(!postgres)(
  'a caller in the process of the run gets its result, though the job is gone before the answer',
  async () => {
    let end = (): void => undefined
    const gate = new Promise<void>((resolve) => (end = resolve))
    const work = task('work.item', { run: () => gate.then(() => 'done') })
    // Without notifications it looks for the ends of all jobs again and again.
    const { proxy, engine } = await behindProxy({ tasks: [work] }, '&notify=false')
    const job = await work.enqueue()
    const later = await work.enqueue(undefined, { delay: '1h' })
    await expect.poll(async () => (await engine.jobs.get(job.id))?.state).toBe('active')
    const result = job.result()
    result.catch(() => undefined)
    const witness = later.result().catch((error: unknown) => error)
    let settled = false
    proxy.holdsAnswerTo = (sent) => DELETES.test(sent) && (settled = true)
    end()
    await expect.poll(() => settled).toBe(true)
    expect(await engine.jobs.get(job.id)).toBeNull()
    // The look that finds the one gone asks for the other as well.
    await engine.jobs.cancel(later.id)
    await engine.jobs.delete(later.id)
    expect(await witness).toMatchObject({ code: expect.stringMatching(/^job\.(cancelled|not_found)$/) as string })
    await engine.jobs.get(job.id)
    proxy.release()
    expect(await result).toBe('done')
  },
)

test.skipIf(!postgres)('an ack whose answer from the server is lost is answered as completed', async () => {
  const { proxy, engine } = await behindProxy({ tasks: [] })
  const app = createHttpApp({ sluice: engine })
  onTestFinished(() => app.close())
  const post = async (path: string, body: unknown): Promise<{ status: number; body: Json }> => {
    const headers = { 'Content-Type': 'application/openjobspec+json' }
    const request = new Request(`http://server/ojs/v1${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    const answer = await app.fetch(request)
    return { status: answer.status, body: (await answer.json()) as Json }
  }
  const { body } = await post('/jobs', { type: 'work', args: [], options: { queue: 'q' } })
  const { id } = body['job'] as { id: string }
  const { body: fetched } = await post('/workers/fetch', { queues: ['q'], worker_id: 'w' })
  const startedAt = (fetched['jobs'] as Json[])[0]!['started_at'] as string
  let lost = 0
  proxy.losesAnswerTo = (sent) => DELETES.test(sent) && ++lost > 0
  const acked = await post('/workers/ack', { job_id: id, worker_id: 'w' })
  expect([lost, acked]).toMatchObject([1, { status: 200, body: { state: 'completed' } }])
  expect(Date.parse(String(acked.body['completed_at']))).toBeGreaterThan(Date.parse(startedAt))
  expect((await post('/workers/ack', { job_id: id, worker_id: 'w' })).status).toBe(404)
})
