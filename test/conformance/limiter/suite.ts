// The behaviour of every backend of limits. A harness opens it, and moves its clock.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { LimitBackend, UnitAnswer } from '../../../src/limiter/contract/limiter.ts'
import type { Policy } from '../../../src/policy/limits/policy.ts'
import { ask, definition, type Open, type Opened, request, SECOND_US, shown } from './harness.ts'

export function limiterConformance(name: string, open: Open): void {
  describe(`limits on ${name}`, () => {
    let opened: Opened
    let backend: LimitBackend

    beforeEach(async () => {
      opened = await open()
      backend = opened.backend
    })
    afterEach(() => opened.close())

    const define = (limits: Readonly<Record<string, Policy>>): Promise<readonly string[]> =>
      backend.define(Object.entries(limits).map(([name, policy]) => definition(name, policy)))
    const permitOf = (answer: UnitAnswer | undefined) => {
      if (answer?.kind !== 'granted' || !answer.permit) throw new Error('no permit')
      return answer.permit
    }
    const granted = async (uses: string | readonly string[], more = {}) => {
      const [answer] = await backend.acquire([request(uses, more)])
      if (answer?.kind !== 'granted') throw new Error(`denied: ${JSON.stringify(answer)}`)
      return answer
    }

    describe('rules', () => {
      it('a rate grants its burst, and names the exact wait for the next', async () => {
        await define({ crm: { rate: 10, per: '1s', burst: 3 } })
        expect(await ask(backend, 'crm', 'crm', 'crm', 'crm')).toEqual(['go', 'go', 'go', 'crm 100'])
        await opened.advance(99.999)
        expect(await ask(backend, 'crm')).toEqual(['crm 0.001'])
        await opened.advance(0.001)
        expect(await ask(backend, 'crm', 'crm')).toEqual(['go', 'crm 100'])
      })

      it('a rate of three a second does not drift', async () => {
        await define({ crm: { rate: 3, per: '1s', burst: 1 } })
        const waits: string[] = []
        for (let i = 0; i < 4; i++) {
          const [, wait = ''] = await ask(backend, 'crm', 'crm')
          waits.push(wait)
          await opened.advance(Number(wait.split(' ')[1]))
        }
        expect(waits).toEqual(['crm 333.334', 'crm 333.333', 'crm 333.333', 'crm 333.334'])
      })

      it('a sliding window frees each unit when it leaves', async () => {
        await define({ crm: { window: 'sliding', max: 2, per: '1s', guard: 0 } })
        expect(await ask(backend, 'crm')).toEqual(['go'])
        await opened.advance(400)
        expect(await ask(backend, 'crm', 'crm')).toEqual(['go', 'crm 600'])
        await opened.advance(600)
        expect(await ask(backend, 'crm', 'crm')).toEqual(['go', 'crm 400'])
      })

      it('a fixed window begins anew at its edge, and keeps a guard before it', async () => {
        await define({ crm: { window: 'fixed', max: 2, per: '1h', guard: '10m' } })
        const [, , denied = ''] = await ask(backend, 'crm', 'crm', 'crm')
        const wait = Number(denied.split(' ')[1])
        expect(wait).toBeGreaterThan(0)
        await opened.advance(wait - 60_000)
        await backend.forget({ limit: 'crm', key: '' })
        expect(await ask(backend, 'crm')).toEqual(['crm 60000'])
        await opened.advance(60_000)
        expect(await ask(backend, 'crm', 'crm')).toEqual(['go', 'go'])
      })

      it('a calendar window lasts until midnight of its time zone', async () => {
        await define({ crm: { window: 'fixed', max: 1, per: '1d', timezone: 'Europe/Paris' } })
        const [first, denied = ''] = await ask(backend, 'crm', 'crm')
        expect(first).toBe('go')
        const wait = Number(denied.split(' ')[1])
        expect(wait).toBeLessThanOrEqual(25 * 3_600_000)
        await opened.advance(wait - 0.001)
        expect(await ask(backend, 'crm')).toEqual(['crm 0.001'])
        await opened.advance(0.001)
        expect(await ask(backend, 'crm', 'crm:x')).toEqual(['go', 'go'])
      })

      it('a spacing keeps starts apart, beside a rate too', async () => {
        await define({ mail: { every: '200ms' }, both: { rate: 2, per: '10s', every: '1s' } })
        expect(await ask(backend, 'mail', 'mail', 'both', 'both')).toEqual(['go', 'mail 200', 'go', 'both 1000'])
        await opened.advance(1000)
        expect(await ask(backend, 'mail', 'both', 'both')).toEqual(['go', 'go', 'both 4000'])
      })

      it('startEmpty begins with one unit', async () => {
        await define({ crm: { rate: 10, per: '1s', startEmpty: true } })
        expect(await ask(backend, 'crm', 'crm')).toEqual(['go', 'crm 100'])
      })

      it('weights are units, and headroom keeps some back', async () => {
        await define({ crm: { rate: 10, per: '1s', headroom: { units: 4, priority: 10 } } })
        expect(await ask(backend, 'crm*6', 'crm')).toEqual(['go', 'crm 100'])
        const [urgent] = await backend.acquire([request('crm*4', { priority: 10 })])
        expect(urgent?.kind).toBe('granted')
      })

      it('numbers of any size stay exact', async () => {
        await define({ big: { rate: 999_999_937, per: '1d', burst: 1_000_000_000 } })
        expect(await ask(backend, 'big*1000000000', 'big*999999999')).toEqual(['go', 'big 86400005.357'])
      })
    })

    describe('requests', () => {
      it('are granted whole or not at all', async () => {
        await define({ a: { rate: 1, per: '1s' }, b: { rate: 5, per: '10s' } })
        expect(await ask(backend, 'a', ['a', 'b'])).toEqual(['go', 'a 1000'])
        expect(await ask(backend, 'b', 'b', 'b', 'b', 'b', 'b')).toEqual(['go', 'go', 'go', 'go', 'go', 'b 2000'])
        expect(await ask(backend, ['a', 'b'])).toEqual(['b 2000'])
      })

      it('of a tenant that is denied cost the shared budget nothing', async () => {
        await define({ a: { rate: 5, per: '10s' }, b: { rate: 100, per: '10s' } })
        const first = Array.from({ length: 50 }, () => ['a:t0', 'b'])
        const rest = Array.from({ length: 19 }, (_, i) => Array.from({ length: 5 }, () => [`a:t${i + 1}`, 'b'])).flat()
        const answers = await ask(backend, ...first, ...rest)
        expect(answers.filter((each) => each === 'go')).toHaveLength(100)
        expect(answers[5]).toBe('a:t0 2000')
        expect(await ask(backend, 'b')).toEqual(['b 100'])
      })

      it('of one line stop at the first denial', async () => {
        await define({ crm: { rate: 10, per: '1s', burst: 3 } })
        const line = ['crm', 'crm*3', 'crm'].map((uses) => request(uses, { line: 0 }))
        expect((await backend.acquire([...line, request('crm', { line: 1 })])).map(shown)).toEqual([
          'go',
          'crm 100',
          'crm 100',
          'go',
        ])
      })

      it('for a limit that is not defined are unknown, and take nothing', async () => {
        await define({ crm: { rate: 1, per: '1s' } })
        expect(await ask(backend, ['crm', 'none'], 'crm')).toEqual(['unknown', 'go'])
      })

      it('of different keys have budgets of their own', async () => {
        await define({ crm: { rate: 1, per: '1s' } })
        expect(await ask(backend, 'crm:a', 'crm:b', 'crm:a', 'crm:ü☃')).toEqual(['go', 'go', 'crm:a 1000', 'go'])
      })
    })

    describe('permits', () => {
      it('bound what runs at once, and return', async () => {
        await define({ slots: { concurrency: 2 } })
        const first = permitOf(await granted('slots'))
        await granted('slots')
        expect(await ask(backend, 'slots')).toEqual(['slots permit'])
        await backend.release([first, first])
        expect(await ask(backend, 'slots', 'slots')).toEqual(['go', 'slots permit'])
      })

      it('return when their lease is over, and none before', async () => {
        await define({ slots: { concurrency: 10 } })
        for (let i = 0; i < 10; i++) await granted('slots', { leaseUs: 2 * SECOND_US })
        await opened.advance(1999.999)
        expect(await ask(backend, 'slots')).toEqual(['slots permit'])
        await opened.advance(0.001)
        expect(await ask(backend, ...Array.from({ length: 11 }, () => 'slots'))).toEqual([
          ...Array.from({ length: 10 }, () => 'go'),
          'slots permit',
        ])
      })

      it('are held by extending the lease; an ended one is told', async () => {
        await define({ slots: { concurrency: 1 } })
        const permit = permitOf(await granted('slots', { leaseUs: SECOND_US }))
        await opened.advance(900)
        expect(await backend.extend([permit], SECOND_US)).toEqual([])
        await opened.advance(999)
        expect(await ask(backend, 'slots')).toEqual(['slots permit'])
        await opened.advance(1)
        expect((await backend.extend([permit], SECOND_US)).map(({ id }) => id)).toEqual([permit.id])
        expect(await ask(backend, 'slots')).toEqual(['go'])
      })

      it('are taken once by a call that is repeated', async () => {
        await define({ slots: { concurrency: 2 } })
        await granted('slots', { permit: 'same' })
        await granted('slots', { permit: 'same' })
        expect((await backend.inspect({ limit: 'slots', key: '' }))?.active).toBe(1)
      })

      it('are not taken by a request that another limit denies', async () => {
        await define({ slots: { concurrency: 1 }, crm: { rate: 1, per: '1s' } })
        await granted('crm')
        expect(await ask(backend, ['crm', 'slots'], 'slots')).toEqual(['crm 1000', 'go'])
      })
    })

    describe('reservations', () => {
      it('take the exact next starts, one after the other', async () => {
        await define({ crm: { rate: 10, per: '1s', burst: 1 } })
        const book = async () => {
          const answer = await backend.reserve(request('crm'), 10 * SECOND_US)
          return answer.kind === 'booked' ? answer : null
        }
        const booked = [await book(), await book(), await book()]
        expect(booked.map((each) => each?.startAfterUs)).toEqual([0, 100_000, 200_000])
        expect(await ask(backend, 'crm')).toEqual(['crm 300'])
        expect(await backend.confirm(booked[1]?.id ?? '')).toMatchObject({ kind: 'wait', startAfterUs: 100_000 })
        await opened.advance(100)
        expect(await backend.confirm(booked[1]?.id ?? '')).toMatchObject({ kind: 'granted' })
        expect(await backend.confirm(booked[1]?.id ?? '')).toEqual({ kind: 'gone' })
      })

      it('beyond the bound book nothing', async () => {
        await define({ crm: { rate: 1, per: '1s' } })
        await granted('crm')
        expect(await backend.reserve(request('crm'), 999_999)).toMatchObject({
          kind: 'denied',
          retryAfterUs: SECOND_US,
        })
        expect(await ask(backend, 'crm')).toEqual(['crm 1000'])
      })

      it('are given back by cancel', async () => {
        await define({ crm: { rate: 1, per: '1s' } })
        await granted('crm')
        const answer = await backend.reserve(request('crm'), SECOND_US)
        expect(await ask(backend, 'crm')).toEqual(['crm 2000'])
        expect(await backend.cancel(answer.kind === 'booked' ? answer.id : '')).toBe(true)
        expect(await ask(backend, 'crm')).toEqual(['crm 1000'])
        expect(await backend.cancel('none')).toBe(false)
      })

      it('are moved by a penalty', async () => {
        await define({ crm: { rate: 1, per: '1s' } })
        await granted('crm')
        const answer = await backend.reserve(request('crm'), SECOND_US)
        const id = answer.kind === 'booked' ? answer.id : ''
        await opened.advance(500)
        await backend.penalize({ limit: 'crm', key: '' }, 5 * SECOND_US)
        await opened.advance(500)
        expect(await backend.confirm(id)).toMatchObject({ kind: 'wait', startAfterUs: 4_500_000 })
        await opened.advance(4500)
        expect(await backend.confirm(id)).toMatchObject({ kind: 'granted' })
        expect(await ask(backend, 'crm')).toEqual(['crm 1000'])
      })

      it('that are confirmed late do not begin together', async () => {
        await define({ crm: { every: '1s' } })
        const ids: string[] = []
        for (let i = 0; i < 3; i++) {
          const answer = await backend.reserve(request('crm'), 10 * SECOND_US)
          if (answer.kind === 'booked') ids.push(answer.id)
        }
        await opened.advance(10_000)
        const kinds: string[] = []
        for (const id of ids) kinds.push((await backend.confirm(id)).kind)
        expect(kinds).toEqual(['granted', 'wait', 'wait'])
      })
    })

    describe('corrections', () => {
      it('a charge takes more, into debt; a negative one returns units', async () => {
        await define({ crm: { rate: 10, per: '1s' } })
        const { atUs } = await granted('crm*10')
        await backend.charge({ limit: 'crm', key: '' }, -4, atUs)
        expect(await ask(backend, 'crm*4', 'crm')).toEqual(['go', 'crm 100'])
        await backend.charge({ limit: 'crm', key: '' }, 5, atUs)
        expect(await ask(backend, 'crm')).toEqual(['crm 600'])
        expect((await backend.inspect({ limit: 'crm', key: '' }))?.debt).toBe(5)
      })

      it('a penalty closes the bucket for all, and leaves one unit at its end', async () => {
        await define({ crm: { rate: 10, per: '1s' } })
        expect(await backend.penalize({ limit: 'crm', key: 'a' }, 3 * SECOND_US)).toBe(true)
        expect(await backend.penalize({ limit: 'crm', key: 'a' }, SECOND_US)).toBe(false)
        expect(await ask(backend, 'crm:a', 'crm:b')).toEqual(['crm:a 3000', 'go'])
        await opened.advance(3000)
        expect(await ask(backend, 'crm:a', 'crm:a')).toEqual(['go', 'crm:a 100'])
      })

      it('a report bounds the bucket until its reset', async () => {
        await define({ crm: { rate: 100, per: '1s' } })
        const report = { remaining: 2, resetInUs: 10 * SECOND_US, direction: 'down', reset: 'window' } as const
        expect(await backend.calibrate({ limit: 'crm', key: '' }, report)).toBe(true)
        expect(await ask(backend, 'crm', 'crm', 'crm')).toEqual(['go', 'go', 'crm 10000'])
        await opened.advance(10_000)
        expect(await ask(backend, 'crm*100')).toEqual(['go'])
      })

      it('forget makes a bucket new', async () => {
        await define({ crm: { rate: 1, per: '1h' } })
        await granted('crm')
        await backend.forget({ limit: 'crm', key: '' })
        expect(await ask(backend, 'crm', 'crm')).toEqual(['go', 'crm 3600000'])
      })

      it('inspect tells units, permits and penalties', async () => {
        await define({ crm: { rate: 10, per: '1s', concurrency: 4 } })
        await granted('crm*3')
        const name = { limit: 'crm', key: '' }
        expect(await backend.inspect(name)).toMatchObject({
          available: 3,
          debt: 0,
          capacity: 10,
          active: 1,
          nextInUs: 0,
          closedForUs: 0,
          overrides: [],
        })
        await backend.penalize(name, SECOND_US)
        expect(await backend.inspect(name)).toMatchObject({ available: 0, nextInUs: SECOND_US, closedForUs: SECOND_US })
        expect(await backend.inspect({ limit: 'none', key: '' })).toBeNull()
        expect(await backend.inspect({ limit: 'crm', key: 'new' })).toMatchObject({ available: 4, active: 0 })
      })
    })

    describe('changes of limits', () => {
      const change = {
        kind: 'override',
        limit: 'crm',
        key: null,
        change: { rate: 1 },
        forUs: null,
        by: null,
        reason: null,
      } as const

      it('the higher version wins, then the later call', async () => {
        expect(await define({ crm: { rate: 1, per: '1s', version: 2 } })).toEqual(['crm'])
        expect(await define({ crm: { rate: 5, per: '1s', version: 1 } })).toEqual([])
        expect(await define({ crm: { rate: 1, per: '1s', version: 2 } })).toEqual([])
        expect(await ask(backend, 'crm', 'crm')).toEqual(['go', 'crm 1000'])
        expect(await define({ crm: { rate: 2, per: '1s', version: 2 } })).toEqual(['crm'])
        expect(await ask(backend, 'crm:x', 'crm:x', 'crm:x')).toEqual(['go', 'go', 'crm:x 500'])
      })

      it('a new definition refills no bucket', async () => {
        await define({ crm: { rate: 10, per: '1s' } })
        await granted('crm*5')
        await define({ crm: { rate: 20, per: '1s' } })
        expect((await backend.inspect({ limit: 'crm', key: '' }))?.available).toBe(5)
        expect(await ask(backend, 'crm*5', 'crm')).toEqual(['go', 'crm 50'])
      })

      it('an override ends by itself, to the microsecond', async () => {
        await define({ crm: { rate: 10, per: '1s', burst: 1 } })
        expect(await backend.change({ ...change, forUs: 10 * SECOND_US })).toBe(true)
        expect(await ask(backend, 'crm', 'crm')).toEqual(['go', 'crm 1000'])
        await opened.advance(9999.999)
        expect((await backend.inspect({ limit: 'crm', key: '' }))?.policy.rule).toMatchObject({ rate: 1 })
        await opened.advance(0.001)
        expect((await backend.inspect({ limit: 'crm', key: '' }))?.policy.rule).toMatchObject({ rate: 10 })
        expect(await ask(backend, 'crm', 'crm')).toEqual(['go', 'crm 100'])
        expect(await backend.change({ ...change, change: null })).toBe(false)
      })

      it('an override of one key leaves the others', async () => {
        await define({ crm: { rate: 10, per: '1s', burst: 1 } })
        await backend.change({ ...change, key: 'a' })
        expect(await ask(backend, 'crm:a', 'crm:a', 'crm:b', 'crm:b')).toEqual(['go', 'crm:a 1000', 'go', 'crm:b 100'])
        expect(await backend.change({ ...change, key: 'a', change: null })).toBe(true)
        await opened.advance(1000)
        expect(await ask(backend, 'crm:a', 'crm:a')).toEqual(['go', 'crm:a 100'])
      })

      it('a pause stops all starts, and resumes', async () => {
        await define({ crm: { rate: 10, per: '1s' } })
        await backend.change({ ...change, kind: 'pause', change: {}, forUs: 5 * SECOND_US })
        expect(await ask(backend, 'crm')).toEqual(['crm permit'])
        await opened.advance(5000)
        expect(await ask(backend, 'crm')).toEqual(['go'])
        await backend.change({ ...change, kind: 'pause', change: {} })
        expect(await ask(backend, 'crm')).toEqual(['crm permit'])
        expect(await backend.change({ ...change, kind: 'pause', change: null })).toBe(true)
        expect(await ask(backend, 'crm')).toEqual(['go'])
      })

      it('of an unknown limit or an invalid value are refused', async () => {
        await expect(backend.change(change)).rejects.toMatchObject({ code: 'limit.unknown' })
        await define({ crm: { rate: 10, per: '1s' } })
        await expect(backend.change({ ...change, change: { max: 5 } })).rejects.toMatchObject({
          code: 'policy.invalid',
        })
      })
    })
  })
}
