import { describe, expect, onTestFinished, test } from 'vitest'
import type { Logger } from '../../src/base/logger.ts'
import { input, JobDiscarded, limit, Sluice, task } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'

const stores = await everyStore('failures')

type Line = readonly [level: string, fields: Record<string, unknown>, message: string]

function keeping(lines: Line[]): Logger {
  const at =
    (level: string) =>
    (fields: object, message: string): void =>
      void lines.push([level, fields as Record<string, unknown>, message])
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

describe.each(stores)('on $name', ({ create }) => {
  test('a discarded job has its attempts with stacks and causes, and so has the error of its result', async () => {
    const lines: Line[] = []
    const work = task('work', input<number>(), {
      retry: { attempts: 2, backoff: 'fixed', initial: '1ms' },
      run(_, ctx) {
        ctx.logger.info({ step: 1 }, 'begun')
        const root = Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' })
        throw new Error('the partner failed', { cause: new TypeError('no answer', { cause: root }) })
      },
    })
    const sluice = new Sluice({ store: create(), tasks: [work], logger: keeping(lines) })
    onTestFinished(() => sluice.stop({ within: 0 }))
    await sluice.start()
    const job = await work.enqueue(1)
    const error: unknown = await job.result().catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(JobDiscarded)
    const { cause } = error as JobDiscarded
    expect(cause).toMatchObject({
      message: 'Error: the partner failed',
      cause: { message: 'TypeError: no answer', cause: { code: 'ECONNRESET', message: 'Error: socket hang up' } },
    })
    expect((cause as Error).stack).toContain('failures.test.ts')
    const causes = [{ message: 'TypeError: no answer' }, { code: 'ECONNRESET', message: 'Error: socket hang up' }]
    const failure = { code: 'handler.failed', message: 'Error: the partner failed', causes }
    const { failures } = (await sluice.jobs.get(job.id))!
    expect(failures).toMatchObject([
      { attempt: 1, ...failure },
      { attempt: 2, ...failure },
    ])
    expect(failures[0]!.stack).toMatch(/^Error: the partner failed\n +at /)
    const own = lines.filter(([, fields]) => fields['job'] === job.id)
    // The next attempt may begin before the end of the last one is reported.
    const texts = own.map(([level, { task: name, attempt }, message]) => [attempt, level, name, message].join(' '))
    expect(texts.toSorted()).toEqual([
      '1 info work begun',
      '1 warn work a run failed, and its job is retried',
      '2 error work a job was discarded',
      '2 info work begun',
    ])
    expect(own[0]![1]).toMatchObject({ step: 1 })
  })

  test('a stack and a chain are bounded, odd ones are no error of their own', async () => {
    const odd = Object.assign(new Error('long'), { stack: 'x\0\uD800'.repeat(5_000) })
    const circle = new Error('first')
    circle.cause = new Error('second', { cause: circle })
    const hostile = new Error('hostile')
    Object.defineProperty(hostile, 'cause', {
      get() {
        throw new Error('no')
      },
    })
    let deep = new Error('0')
    for (let n = 1; n < 20; n++) deep = new Error(String(n), { cause: deep })
    const errors = [odd, circle, hostile, deep, new Error('text', { cause: 'a text' })]
    const work = task('work', input<number>(), {
      retry: { attempts: 1 },
      run(n) {
        throw errors[n] as Error
      },
    })
    const sluice = new Sluice({ store: create(), tasks: [work], logger: keeping([]) })
    onTestFinished(() => sluice.stop({ within: 0 }))
    await sluice.start()
    const jobs = await work.enqueueMany([0, 1, 2, 3, 4])
    await Promise.all(jobs.map((job) => job.result().catch(() => undefined)))
    const views = await Promise.all(jobs.map(async ({ id }) => (await sluice.jobs.get(id))!.failures[0]!))
    expect(views[0]!.stack!.length).toBeLessThanOrEqual(4_000)
    expect(views[1]!.causes).toMatchObject([{ message: 'Error: second' }])
    expect(views[2]!.causes).toEqual([])
    expect(views[3]!.causes).toHaveLength(5)
    expect(views[4]!.causes).toEqual([{ message: 'Error: a text' }])
  })

  test('a budget that jobs begin to wait for is one line of debug', async () => {
    const lines: Line[] = []
    const slow = limit('slow', { rate: 1, per: '1h' })
    const work = task('work', input<number>(), { limits: [slow], run: () => undefined })
    const sluice = new Sluice({ store: create(), tasks: [work], logger: keeping(lines) })
    onTestFinished(() => sluice.stop({ within: 0 }))
    const waits = new Promise((resolve) => sluice.on('rate_limit.exceeded', resolve))
    await work.enqueueMany([1, 2, 3])
    await sluice.start()
    await waits
    expect(lines.filter(([level]) => level === 'debug')).toMatchObject([
      ['debug', { limit: 'slow', key: '', queue: 'default' }, 'jobs wait for a budget'],
    ])
  })

  test('a logger with children gives each run one of its own', async () => {
    const lines: Line[] = []
    const parent = { ...keeping([]), child: (fields: object) => ({ ...keeping(lines), fields }) }
    let seen: unknown
    const work = task('work', input<number>(), {
      run(_, ctx) {
        seen = ctx.logger
        ctx.logger.warn({}, 'here')
      },
    })
    const sluice = new Sluice({ store: create(), tasks: [work], logger: parent })
    onTestFinished(() => sluice.stop({ within: 0 }))
    await sluice.start()
    const job = await work.enqueue(1)
    await job.result()
    expect(seen).toMatchObject({ fields: { job: job.id, task: 'work', attempt: 1 } })
    expect(lines).toEqual([['warn', {}, 'here']])
  })
})
