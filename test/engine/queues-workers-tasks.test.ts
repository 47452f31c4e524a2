import { hostname } from 'node:os'
import { describe, expect, onTestFinished, test } from 'vitest'
import { silentLogger } from '../../src/base/logger.ts'
import { input, Sluice, task } from '../../src/exports/index.ts'
import { remoteOf } from '../../src/remote/remote.ts'
import { everyStore } from '../stores.ts'

const stores = await everyStore('queues, workers and tasks')

describe.each(stores)('on $name', ({ create }) => {
  const gate = (): { readonly open: () => void; readonly opened: Promise<void> } => {
    let open = (): void => undefined
    const opened = new Promise<void>((resolve) => (open = resolve))
    return { open, opened }
  }
  test('the wait of a job of a paused queue is explained by the pause', async () => {
    const mail = task('mail.send', { queue: 'mail', run: () => undefined })
    const sluice = new Sluice({ store: create(), tasks: [mail], logger: silentLogger })
    onTestFinished(() => sluice.stop({ within: 0 }))
    await sluice.start()
    await sluice.queues.pause('mail')
    const told = await sluice.jobs.explain((await mail.enqueue()).id)
    expect(told).toMatchObject({ paused: true, served: false, known: true })
    expect(told.words).toBe(
      'The job waits for a free slot of queue mail, at position 1 of its lane. Queue mail is paused.',
    )
  })

  test('a queue is looked at, paused, resumed and bounded', async () => {
    const work = task('work', input<number>(), { queue: 'mail', run: () => undefined })
    const other = task('other', { run: () => undefined })
    const sluice = new Sluice({ store: create(), tasks: [work, other], logger: silentLogger })
    onTestFinished(() => sluice.stop({ within: 0 }))
    await sluice.queues.pause('mail')
    await sluice.queues.bound('mail', 50)
    expect(await sluice.queues.get('mail')).toMatchObject({ paused: true, bound: 50, workers: 0 })
    await sluice.queues.resume('mail')
    await sluice.queues.bound('mail', null)
    await sluice.start()
    expect(await sluice.tasks.list()).toMatchObject([
      { name: 'other', workers: 1 },
      { name: 'work', workers: 1 },
    ])
    expect(await sluice.queues.list()).toMatchObject([
      { name: 'default', workers: 1, bound: null },
      { name: 'mail', paused: false, bound: null, workers: 1, jobs: { available: 0, active: 0 } },
    ])
    expect(await sluice.queues.get('none')).toBeNull()
    await expect(sluice.queues.pause('No Queue')).rejects.toMatchObject({ code: 'queue.invalid' })
    for (const odd of [0, 1.5, -1, Number.NaN, '5', undefined])
      await expect(sluice.queues.bound('mail', odd as number)).rejects.toMatchObject({ code: 'option.invalid' })
  })

  test('a worker says what it runs, since when, and its slots; a queue is drained once nothing of it waits or runs', async () => {
    const { open, opened } = gate()
    const started = gate()
    const work = task('work', input<number>(), {
      queue: 'mail',
      async run() {
        started.open()
        await opened
      },
    })
    const sluice = new Sluice({
      store: create(),
      tasks: [work],
      queues: { mail: { concurrency: 2 } },
      logger: silentLogger,
    })
    onTestFinished(() => sluice.stop({ within: 0 }))
    await sluice.start()
    const job = await work.enqueue(1)
    await started.opened
    const [worker] = await sluice.workers.list()
    expect(worker).toMatchObject({
      name: null,
      host: hostname(),
      pid: process.pid,
      queues: ['mail'],
      tasks: ['work'],
      slots: 2,
      alive: true,
      running: [{ id: job.id, task: 'work', queue: 'mail', attempt: 1, since: expect.any(Date) as Date }],
    })
    expect(await sluice.tasks.list()).toMatchObject([{ name: 'work', workers: 1, jobs: { active: 1, available: 0 } }])
    const waits = sluice.queues.drain('mail')
    await expect(sluice.queues.drain('mail', { timeout: 0 })).rejects.toMatchObject({ code: 'queue.drain.timeout' })
    const stop = new AbortController()
    const stopped = sluice.queues.drain('mail', { signal: stop.signal })
    stop.abort(new Error('enough'))
    await expect(stopped).rejects.toThrow('enough')
    await expect(sluice.queues.drain('mail', { timout: 0 } as never)).rejects.toThrow('did you mean timeout?')
    open()
    await waits
    expect(await sluice.queues.get('mail')).toMatchObject({ jobs: { active: 0, completed: 1 } })
    expect((await sluice.workers.list())[0]?.running).toEqual([])
  })
  test('many drains of a queue share its counts', async () => {
    const work = task('work', { queue: 'mail', run: () => undefined })
    const sluice = new Sluice({ store: create(), tasks: [work], logger: silentLogger })
    onTestFinished(() => sluice.stop({ within: 0 }))
    const { id } = await work.enqueue()
    const store = await remoteOf(sluice).store()
    const count = store.queueCounts.bind(store)
    let counts = 0
    store.queueCounts = (...given) => (counts++, count(...given))
    const drains = Array.from({ length: 200 }, () => sluice.queues.drain('mail', { timeout: 0 }).catch(() => 'late'))
    expect(new Set(await Promise.all(drains))).toEqual(new Set(['late']))
    expect(counts).toBeLessThan(20)
    await sluice.jobs.cancel(id)
    await sluice.queues.drain('mail', { timeout: 0 })
  })
})
