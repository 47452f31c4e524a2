// The accounts of paid starts, for random histories.
import { array, assert, constant, constantFrom, integer, oneof, property, record } from '../properties.ts'
import { describe, expect, it } from 'vitest'
import { PaidBook, type PaidLine, type Ticket } from '../../src/limiter/client/paid-book.ts'
import type { WantedStart } from '../../src/policy/admission/elsewhere.ts'

const start = (limit: string, weight = 1): WantedStart => ({
  backend: 'b',
  uses: [{ limit, key: '', weight }],
  priority: 0,
})
const ticket = (untilUs: number): Omit<Ticket, 'line'> => ({
  permit: null,
  atUs: 1,
  fromUs: 0,
  untilUs,
  lateUs: Infinity,
  askedUs: 0,
})

type Step =
  | { readonly kind: 'want'; readonly limit: string; readonly starts: number }
  | { readonly kind: 'ask' }
  | { readonly kind: 'answer'; readonly granted: number }
  | { readonly kind: 'claim'; readonly used: number }
  | { readonly kind: 'wait'; readonly us: number }

const steps = array(
  oneof(
    record({
      kind: constant('want' as const),
      limit: constantFrom('x', 'y'),
      starts: integer({ min: 1, max: 9 }),
    }),
    record({ kind: constant('ask' as const) }),
    record({ kind: constant('answer' as const), granted: integer({ min: 0, max: 9 }) }),
    record({ kind: constant('claim' as const), used: integer({ min: 0, max: 9 }) }),
    record({ kind: constant('wait' as const), us: integer({ min: 1, max: 5000 }) }),
  ),
  { maxLength: 60 },
)

describe('the book of paid starts', () => {
  it('loses no payment: each is used once, put back, or lapses', () => {
    assert(
      property(steps, (history: readonly Step[]) => {
        const book = new PaidBook()
        let nowUs = 0
        let paid = 0
        let used = 0
        let lapsed = 0
        let asked: (readonly [PaidLine, number])[] = []
        for (const step of history) {
          if (step.kind === 'want') book.wanted(Array.from({ length: step.starts }, () => start(step.limit)))
          else if (step.kind === 'wait') nowUs += step.us
          else if (step.kind === 'ask') {
            const more = book.asking('b', nowUs)
            // A line is never asked for twice at once.
            for (const [line] of more) expect(asked.some(([other]) => other === line)).toBe(false)
            asked.push(...more)
          } else if (step.kind === 'answer') {
            for (const [line, starts] of asked) {
              const granted = Math.min(step.granted, starts)
              paid += granted
              const tickets = Array.from({ length: granted }, () => ticket(nowUs + 2000))
              const by = { limit: line.uses[0]!.limit, key: '' }
              book.answered(line, tickets, granted < starts ? { kind: 'denied', by, retryAfterUs: 700 } : null, nowUs)
            }
            asked = []
          } else {
            const taken = book.take(nowUs)
            expect(taken.every(({ untilUs }) => untilUs >= nowUs)).toBe(true)
            used += Math.min(step.used, taken.length)
            book.putBack(taken.slice(step.used))
          }
          lapsed += book.lapsed(nowUs).length
        }
        const left = book.take(-Infinity).length
        expect(used + lapsed + left).toBe(paid)
      }),
    )
  })

  it('asks for no more than decisions want, less what is asked for and paid', () => {
    const book = new PaidBook()
    book.wanted([start('x'), start('x'), start('x')])
    const [[line, starts] = []] = book.asking('b', 0)
    expect(starts).toBe(3)
    book.wanted([start('x'), start('x'), start('x'), start('x')])
    expect(book.asking('b', 0)).toEqual([])
    book.answered(line!, [ticket(10), ticket(10)], null, 0)
    book.wanted([start('x'), start('x'), start('x'), start('x')])
    expect(book.asking('b', 0).map(([, count]) => count)).toEqual([2])
  })

  it('asks by itself when a refusal is over, a bounded number of times', () => {
    const book = new PaidBook()
    book.wanted([start('x')])
    let nowUs = 0
    let asks = 0
    for (; asks < 100; asks++) {
      const [[line] = []] = book.asking('b', nowUs)
      if (!line) break
      book.answered(line, [], { kind: 'denied', by: { limit: 'x', key: '' }, retryAfterUs: 1000 }, nowUs)
      expect(book.asking('b', nowUs + 999)).toEqual([])
      nowUs += 1000
    }
    expect(asks).toBe(9)
  })

  it('wants less of a bucket that refuses, and more again once it grants', () => {
    const book = new PaidBook()
    book.wanted(Array.from({ length: 50 }, () => start('x')))
    const [[line] = []] = book.asking('b', 0)
    book.answered(line!, [ticket(10), ticket(10)], { kind: 'denied', by: { limit: 'x', key: '' }, retryAfterUs: 9 }, 0)
    expect([...book.atMost.values()]).toEqual([4])
    for (let n = 0, nowUs = 20; n < 20; n++, nowUs += 20) {
      book.lapsed(nowUs)
      book.wanted([start('x')])
      const [[again] = []] = book.asking('b', nowUs)
      if (again) book.answered(again, [ticket(nowUs)], null, nowUs)
    }
    expect([...book.atMost.values()]).toEqual([])
  })
})
