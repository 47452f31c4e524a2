// A booked start while its backend is away, by a manual clock and with a job of no queue.
import { describe, expect, it, onTestFinished } from 'vitest'
import { type BudgetedJob, withBudgets } from '../../src/exports/bullmq.ts'
import { createLimiter, limit } from '../../src/exports/limiter.ts'
import { createManualClock } from '../../src/testing/manual-clock.ts'
import { UnreliableBackend } from '../engine/unreliable-backend.ts'

const api = limit('api', { rate: 1, per: '10s', burst: 1 })

function open() {
  const clock = createManualClock()
  const backend = new UnreliableBackend(clock)
  const limiter = createLimiter({ backend, limits: [api], clock })
  onTestFinished(() => limiter.close())
  const startMs = clock.now()
  const starts: string[] = []
  const work = withBudgets(limiter, { uses: () => [api], clock }, async ({ id }: BudgetedJob) => {
    starts.push(`${id} ${clock.now() - startMs}`)
  })
  /** One fetch of a job: 'ran', or when it is back. */
  const fetched = async (id: string, attemptsStarted: number): Promise<string> => {
    let back = 0
    const moveToDelayed = async (atMs: number): Promise<void> => void (back = atMs - startMs)
    const done = work({ id, queueName: 'calls', attemptsStarted, moveToDelayed }).then(
      () => 'ran',
      (error: Error) => `${error.message} until ${back}`,
    )
    await clock.advance('500ms')
    return done
  }
  return { clock, backend, limiter, starts, fetched, bookingOf: (id: string) => `bullmq::calls:${id}` }
}

describe('a booked job whose backend goes away', () => {
  it('asks again each second, and gives its booking back when it starts by another unit', async () => {
    const { clock, backend, limiter, starts, fetched, bookingOf } = open()
    expect(await fetched('first', 1)).toBe('ran')
    expect(await fetched('second', 1)).toBe('bullmq:movedToDelayed until 10000')
    await clock.advance('19s')
    backend.isDown = true
    expect(await fetched('second', 2)).toMatch(/^bullmq:movedToDelayed until 21/)
    await clock.advance('1s')
    backend.isDown = false
    expect(await fetched('second', 3)).toBe('ran')
    expect(await limiter.confirm(bookingOf('second'))).toEqual({ kind: 'gone' })
    expect(starts).toEqual(['first 0', 'second 21500'])
  })
})
