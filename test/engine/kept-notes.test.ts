import { describe, expect, onTestFinished, test } from 'vitest'
import { createManualClock, type ManualClock } from '../../src/exports/testing.ts'
import { input, type Job, type LogLevel, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { LINES_AT_MOST, linesIn, logLine, withLines } from '../../src/jobs/job-log.ts'
import { remoteOf } from '../../src/remote/remote.ts'
import { everyStore } from '../stores.ts'

const stores = await everyStore('logs and progress of jobs')

interface Work {
  readonly lines: number
  readonly fail?: number
}

class OwnLogger {
  readonly #lines: string[] = []
  debug = (): void => undefined
  info(given: object | string, message?: string): void {
    this.#lines.push(typeof given === 'string' ? given : (message ?? ''))
  }
  warn(): void {}
  error(): void {}
  child(): this {
    return this
  }
  trace(): number {
    return this.#lines.length
  }
}

const traced: unknown[] = []
const work = task('work', input<Work>(), {
  retry: { attempts: 2, backoff: 'fixed', initial: '1s', jitter: false },
  run: ({ lines, fail = 0 }, ctx) => {
    ctx.logger.debug({}, 'not kept')
    for (let n = 0; n < lines; n++) ctx.logger.info({ n }, `line ${n}`)
    ctx.logger.warn({ err: new TypeError('odd', { cause: 5n }), password: 'hunter2' }, 'careful \0')
    ;(ctx.logger.info as unknown as (message: string) => void)('a message alone')
    traced.push((ctx.logger as unknown as Partial<OwnLogger>).trace?.())
    ctx.progress(0.25)
    ctx.progress(0.5)
    if (ctx.attempt <= fail) throw new Error('no')
  },
})

describe.each(stores)('on $name', ({ create }) => {
  async function engine(keepLogs?: boolean | LogLevel): Promise<{ sluice: Sluice; clock: ManualClock }> {
    const clock = createManualClock({ start: Date.UTC(2030, 0, 1) })
    const kept = keepLogs === undefined ? {} : { keepLogs }
    const sluice = new Sluice({
      store: create(),
      tasks: [work],
      clock,
      logger: new OwnLogger(),
      retention: { completed: '1m' },
      ...kept,
    })
    onTestFinished(() => sluice.stop({ within: 0 }))
    await sluice.start()
    return { sluice, clock }
  }

  test('a job has the lines and the progress of all its runs, in their order', async () => {
    const { sluice, clock } = await engine()
    const { id } = await work.enqueue({ lines: 2, fail: 1 })
    await clock.advance('3s')
    const job = await sluice.jobs.get(id)
    expect(job).toMatchObject({ state: 'completed', progress: 0.5 })
    const at = expect.any(Date) as Date
    const lines = (attempt: number): object[] => [
      { at, level: 'info', attempt, message: 'line 0', fields: { n: 0 } },
      { at, level: 'info', attempt, message: 'line 1', fields: { n: 1 } },
      {
        at,
        level: 'warn',
        attempt,
        message: 'careful \0',
        fields: { err: { name: 'TypeError', message: 'odd', cause: '5' }, password: 'hunter2' },
      },
      { at, level: 'info', attempt, message: 'a message alone' },
    ]
    expect(job?.logs).toEqual([...lines(1), ...lines(2)])
    // The user's logger is the same object with all that it has.
    expect(traced.slice(-2)).toEqual([3, 6])
  })

  test('a job keeps its last 100 lines, and a deleted one none', async () => {
    const { sluice, clock } = await engine()
    const { id } = await work.enqueue({ lines: 250 })
    const other = await work.enqueue({ lines: 1 })
    await clock.advance('1s')
    const logs = (await sluice.jobs.get(id))?.logs ?? []
    expect([logs.length, logs[0]?.message]).toEqual([LINES_AT_MOST, 'line 152'])
    const store = await remoteOf(sluice).store()
    await sluice.jobs.delete(id)
    expect(await store.jobLog(id)).toEqual([])
    await store.addNotes([
      { id, attempt: 1, lines: [logLine({ atMs: 0, level: 'info', attempt: 1 }, 'late')], progress: '1' },
      { id: 'none', attempt: 1, lines: [], progress: '1' },
    ])
    expect(await store.jobLog(id)).toEqual([])
    await clock.advance('3m')
    expect(await sluice.jobs.get(other.id)).toBeNull()
    expect(await store.jobLog(other.id)).toEqual([])
  })

  test('an engine that stops has written all, and false keeps no line', async () => {
    const { sluice, clock } = await engine(false)
    const job: Job<void> = await work.enqueue({ lines: 1 })
    await clock.advance('100ms')
    expect(await sluice.jobs.get(job.id)).toMatchObject({ state: 'completed', progress: null, logs: [] })
    const store = await remoteOf(sluice).store()
    const written: unknown[] = []
    const add = store.addNotes.bind(store)
    store.addNotes = (notes) => {
      written.push(...notes.map(({ progress, lines }) => [progress, lines.length]))
      return add(notes)
    }
    await sluice.stop({ within: 0 })
    expect(written).toEqual([['0.5', 0]])
  })
})

test('a store in trouble delays notes and loses none', async () => {
  const clock = createManualClock()
  const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [work], clock, logger: silentLogger, keepLogs: 'debug' })
  onTestFinished(() => sluice.stop({ within: 0 }))
  await sluice.start()
  const store = await remoteOf(sluice).store()
  const add = store.addNotes.bind(store)
  let failures = 2
  store.addNotes = (notes) => (failures-- > 0 ? Promise.reject(new Error('away')) : add(notes))
  const { id } = await work.enqueue({ lines: 1 })
  await clock.advance('1s')
  expect((await sluice.jobs.get(id))?.logs).toEqual([])
  await clock.advance('5s')
  expect((await sluice.jobs.get(id))?.logs.map(({ message }) => message)).toEqual([
    'not kept',
    'line 0',
    'careful \0',
    'a message alone',
  ])
})

test('a line is cut, and fields that are too long or no JSON are named', () => {
  const at = { atMs: 1, level: 'info', attempt: 1 } as const
  const loop: Record<string, unknown> = {}
  loop['self'] = loop
  expect(logLine(at, loop, 'x'.repeat(5_000))).toEqual({
    ...at,
    message: 'x'.repeat(2_000),
    fields: { omitted: 'fields that are no JSON' },
  })
  expect(logLine(at, { a: 'y'.repeat(9_000) }, 'long').fields).toEqual({ omitted: 'fields of 9008 characters' })
  const wide = Array.from({ length: 40 }, (_, n) => logLine(at, { n, a: 'y'.repeat(7_000) }, 'wide'))
  const kept = withLines([], wide)
  expect(JSON.stringify(kept).length).toBeLessThanOrEqual(65_536)
  expect([kept.length, kept.at(-1)?.fields?.['n']]).toEqual([9, 39])
  for (const odd of ['', 'null', '{}', '[1,{"level":"loud"}]']) expect(linesIn(odd)).toEqual([])
})

test.each(['loud', 1, null, {}])('keepLogs %j is refused', (keepLogs) => {
  expect(() => new Sluice({ store: 'sqlite::memory:', tasks: [], keepLogs: keepLogs as never })).toThrow(
    expect.objectContaining({ code: 'option.invalid' }) as Error,
  )
})
