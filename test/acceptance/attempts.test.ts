import { describe, expect, test } from 'vitest'
import { every, expectSeconds, rate, Room, times } from './harness.ts'

describe('every attempt pays', () => {
  test('and counts: two failures and a success are attempts 1, 2 and 3', async () => {
    const attempts: number[] = []
    const room = await Room.open({
      policy: rate(1, 0.7),
      task: { retry: { attempts: 5, backoff: 'fixed', initial: '30ms', jitter: false } },
      run: (_, ctx) => {
        attempts.push(ctx.attempt)
        if (ctx.attempt < 3) throw new Error('not yet')
      },
    })
    const job = await room.enqueue({ key: 'A' })
    await room.until(0.5)
    await room.until(3)
    expectSeconds(room.secondsOf('A'), [0, 0.7, 1.4])
    expect(attempts).toEqual([1, 2, 3])
    expect(await room.view(job)).toMatchObject({ state: 'completed', attempt: 3 })
    await room.finish()
  })

  test('and the wait for it is no part of an attempt’s timeout', async () => {
    const room = await Room.open({
      policy: rate(1, 0.7),
      task: { timeout: '500ms', retry: { attempts: 2, backoff: 'none' } },
      run: async (_, ctx, clock) => {
        if (ctx.attempt === 1) throw new Error('first')
        await clock.sleep('300ms')
        return 'done'
      },
    })
    const job = await room.enqueue({ key: 'A' })
    await room.until(3)
    expectSeconds(room.secondsOf('A'), [0, 0.7])
    expect(await room.view(job)).toMatchObject({ state: 'completed', attempt: 2, result: 'done' })
    await room.finish()
  })

  test('until they are used up: then the job is discarded with its last error', async () => {
    const room = await Room.open({
      policy: rate(1, 0.7),
      task: { retry: { attempts: 5, backoff: 'fixed', initial: '30ms', jitter: false } },
      run: (_, ctx) => {
        throw new Error(`failure ${ctx.attempt}`)
      },
    })
    const job = await room.enqueue({ key: 'A' })
    await room.until(60)
    expectSeconds(room.secondsOf('A'), [0, 0.7, 1.4, 2.1, 2.8])
    const view = await room.view(job)
    expect(view).toMatchObject({ state: 'discarded', attempt: 5, finishedAt: room.wall(2.8) })
    expect(view?.error).toEqual({ code: 'handler.failed', message: 'Error: failure 5' })
    await room.finish()
  })

  test('ten jobs that fail twice each are thirty attempts of one budget, and no interval holds more than it allows', async () => {
    const room = await Room.open({
      policy: rate(5, 1),
      task: { retry: { attempts: 3, backoff: 'fixed', initial: '50ms', jitter: false } },
      run: (_call, ctx) => {
        if (ctx.attempt < 3) throw new Error('not yet')
      },
    })
    await room.enqueueMany(10, { key: 'A' })
    await room.until(20)
    expectSeconds(room.secondsOf('A'), [...times(5, 0), ...every(0.2, 0.2, 5)])
    await room.finish()
  })

  test('unless retries are free: those start when their delay is over', async () => {
    const room = new Room({
      policy: { ...rate(1, 10), retries: 'free' },
      task: { retry: { attempts: 3, backoff: 'fixed', initial: '1s', jitter: false } },
      run: () => {
        throw new Error('no')
      },
    })
    await room.engine()
    await room.enqueue({ key: 'A' })
    await room.until(20)
    expectSeconds(room.secondsOf('A'), [0, 1, 2])
    expect(room.errors).toEqual([])
  })
})

describe('a limit that drops what it cannot start', () => {
  test('discards it at once, tells the task once for each, and spends nothing on it', async () => {
    const told: string[] = []
    const room = await Room.open({
      policy: { ...rate(1, 5), onLimit: 'drop' },
      task: {
        onError: (error, job) => told.push(`${job.input.name} ${error.name} ${(error as { limit?: string }).limit}`),
      },
    })
    await room.enqueue({ key: 'A', name: 't1' })
    const t2 = await room.enqueue({ key: 'A', name: 't2' })
    await room.until(1)
    const many = await Promise.all(times(20, 1).map((_, i) => room.enqueue({ key: 'A', name: `late${i}` })))
    await room.until(5)
    await room.enqueue({ key: 'A', name: 'at5' })
    await room.until(20)
    expect(room.story).toEqual(['t1@0', 'at5@5'])
    for (const job of [t2, ...many])
      expect(await room.view(job)).toMatchObject({ state: 'discarded', attempt: 0, error: { code: 'limit.rejected' } })
    expect(told.length).toBe(21)
    expect(new Set(told).size).toBe(21)
    expect(told[0]).toBe('t2 RateLimitRejected gate')
    await room.finish()
  })
})

describe('a limit with a longest wait', () => {
  test('rejects a job that cannot start in time as soon as that is known, and keeps those that can', async () => {
    const told: [string, Date | null][] = []
    const room = await Room.open({
      policy: { ...rate(1, 3.5), maxWait: '8s' },
      task: {
        onError: (error, job) =>
          told.push([job.input.name ?? '', (error as unknown as { expectedStart: Date }).expectedStart]),
      },
    })
    await room.enqueueMany(5, { key: 'A', name: 't' })
    await room.until(0)
    expect(told).toEqual([
      ['t4', room.wall(10.5)],
      ['t5', room.wall(10.5)],
    ])
    await room.until(20)
    expect(room.story).toEqual(['t1@0', 't2@3.5', 't3@7'])
    await room.finish()
  })
})

describe('a limit that reschedules what it cannot start', () => {
  test('puts it off to its expected start', async () => {
    const room = await Room.open({ policy: { ...rate(1, 5), onLimit: 'reschedule' } })
    await room.enqueue({ key: 'A', name: 't1' })
    const t2 = await room.enqueue({ key: 'A', name: 't2' })
    await room.until(1)
    expect(await room.view(t2)).toMatchObject({ state: 'scheduled', attempt: 0 })
    await room.until(6)
    expect(room.story).toEqual(['t1@0', 't2@5'])
    await room.finish()
  })
})
