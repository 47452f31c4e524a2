import type { PolicyChange } from '../../policy/limits/override.ts'
import { equal, matches } from './expectations.ts'
import { type Cases, request, SECOND_US, type Subject } from './subject.ts'

/** Reservations book exact starts. */
export const RESERVATIONS: Cases = {
  'take the exact next starts, one after the other': async (subject) => {
    await subject.define({ crm: { rate: 10, per: '1s', burst: 1 } })
    const book = async () => {
      const answer = await subject.backend.reserve(request('crm'), 10 * SECOND_US)
      return answer.kind === 'booked' ? answer : null
    }
    const booked = [await book(), await book(), await book()]
    equal(
      booked.map((each) => each?.startAfterUs),
      [0, 100_000, 200_000],
    )
    equal(await subject.ask('crm'), ['crm 300'])
    matches(await subject.backend.confirm(booked[1]?.id ?? ''), { kind: 'wait', startAfterUs: 100_000 })
    await subject.advance(100)
    matches(await subject.backend.confirm(booked[1]?.id ?? ''), { kind: 'granted' })
    equal(await subject.backend.confirm(booked[1]?.id ?? ''), { kind: 'gone' })
  },

  'beyond the bound book nothing': async (subject) => {
    await subject.define({ crm: { rate: 1, per: '1s' } })
    await subject.granted('crm')
    matches(await subject.backend.reserve(request('crm'), 999_999), {
      kind: 'denied',
      retryAfterUs: SECOND_US,
    })
    equal(await subject.ask('crm'), ['crm 1000'])
  },

  'are given back by cancel': async (subject) => {
    await subject.define({ crm: { rate: 1, per: '1s' } })
    await subject.granted('crm')
    const answer = await subject.backend.reserve(request('crm'), SECOND_US)
    equal(await subject.ask('crm'), ['crm 2000'])
    equal(await subject.backend.cancel(answer.kind === 'booked' ? answer.id : ''), true)
    equal(await subject.ask('crm'), ['crm 1000'])
    equal(await subject.backend.cancel('none'), false)
  },

  'under a known id are replaced': async (subject) => {
    await subject.define({ crm: { rate: 1, per: '1s' } })
    const named = { ...request('crm'), permit: 'job 1' }
    for (let n = 0; n < 3; n++)
      matches(await subject.backend.reserve(named, 10 * SECOND_US), { kind: 'booked', startAfterUs: 0 })
    equal(await subject.ask('crm'), ['crm 1000'])
    matches(await subject.backend.confirm('job 1'), { kind: 'granted' })
    matches(await subject.backend.reserve(named, 10 * SECOND_US), { kind: 'booked', startAfterUs: SECOND_US })
    matches(await subject.backend.reserve(named, 1), { kind: 'denied', retryAfterUs: SECOND_US })
    equal(await subject.backend.confirm('job 1'), { kind: 'gone' })
  },

  'that several confirm or cancel at once have one end': async (subject) => {
    await subject.define({ crm: { rate: 1, per: '1s', burst: 10 } })
    for (const id of await booked(subject, 4)) {
      const { backend } = subject
      const answers = await Promise.all([backend.confirm(id), backend.cancel(id), backend.confirm(id)])
      const ends = answers.filter((answer) => answer === true || (answer !== false && answer.kind === 'granted'))
      equal(ends.length, 1)
    }
  },

  'are moved by a penalty': async (subject) => {
    await subject.define({ crm: { rate: 1, per: '1s' } })
    await subject.granted('crm')
    const answer = await subject.backend.reserve(request('crm'), SECOND_US)
    const id = answer.kind === 'booked' ? answer.id : ''
    await subject.advance(500)
    await subject.backend.penalize({ limit: 'crm', key: '' }, 5 * SECOND_US)
    await subject.advance(500)
    matches(await subject.backend.confirm(id), { kind: 'wait', startAfterUs: 4_500_000 })
    await subject.advance(4500)
    matches(await subject.backend.confirm(id), { kind: 'granted' })
    equal(await subject.ask('crm'), ['crm 1000'])
  },

  'made and given back after a penalty leave the one unit of then': async (subject) => {
    await subject.define({ crm: { rate: 1, per: '1s', burst: 3 } })
    await subject.backend.penalize({ limit: 'crm', key: '' }, 10_000)
    await subject.advance(10)
    const [id = ''] = await booked(subject, 1)
    equal(await subject.backend.cancel(id), true)
    equal(await subject.ask('crm', 'crm'), ['go', 'crm 1000'])
  },

  'that are confirmed late do not begin together': async (subject) => {
    await subject.define({ crm: { every: '1s' } })
    const ids = await booked(subject, 3)
    await subject.advance(10_000)
    const kinds: string[] = []
    for (const id of ids) kinds.push((await subject.backend.confirm(id)).kind)
    equal(kinds, ['granted', 'wait', 'wait'])
  },

  'that begin late move those after them by as much, and lose no unit': async (subject) => {
    await subject.define({ crm: { rate: 1, per: '1s', burst: 1 } })
    const ids = await booked(subject, 4)
    matches(await subject.backend.confirm(ids[0] ?? ''), { kind: 'granted' })
    await subject.advance(1300)
    matches(await subject.backend.confirm(ids[1] ?? ''), { kind: 'granted' })
    await subject.advance(700)
    matches(await subject.backend.confirm(ids[2] ?? ''), { kind: 'wait', startAfterUs: 300_000 })
    equal(await subject.ask('crm'), ['crm 2300'])
    await subject.advance(300)
    matches(await subject.backend.confirm(ids[2] ?? ''), { kind: 'granted' })
    await subject.advance(1000)
    matches(await subject.backend.confirm(ids[3] ?? ''), { kind: 'granted' })
    equal(await subject.ask('crm'), ['crm 1000'])
  },

  'may begin late, in any order, as far as the burst allows it': async (subject) => {
    await subject.define({ crm: { rate: 10, per: '1s', burst: 5 } })
    await subject.granted('crm*5')
    const ids = await booked(subject, 3)
    await subject.advance(350)
    for (const id of ids.reverse()) matches(await subject.backend.confirm(id), { kind: 'granted' })
    equal(await subject.ask('crm'), ['crm 50'])
  },

  'made under an override go by the rules after its end, and leave no unit of them unused': async (subject) => {
    await subject.define({
      crm: { rate: 1, per: '1s', burst: 1 },
      even: { every: '1s' },
      window: { window: 'sliding', max: 1, per: '10s', guard: 0 },
    })
    for (const [limit, change] of Object.entries(SLOW)) await override(subject, limit, change)
    await subject.granted(['crm', 'even', 'window'])
    const starts: Record<string, number[]> = { crm: [60_983_334, 61_983_334], even: [60, 61], window: [60, 70] }
    const ids: string[] = []
    for (const [limit, instants] of Object.entries(starts))
      for (const us of instants) {
        const answer = await subject.backend.reserve(request(limit), 100 * SECOND_US)
        matches(answer, { kind: 'booked', startAfterUs: us < 100 ? us * SECOND_US : us })
        if (answer.kind === 'booked') ids.push(answer.id)
      }
    await subject.advance(60_000)
    equal(await subject.ask('crm', 'even', 'window'), ['crm 2983.334', 'even 2000', 'window 20000'])
    matches(await subject.backend.confirm(ids[0] ?? ''), { kind: 'wait', startAfterUs: 983_334 })
    for (const id of [ids[2], ids[4]]) matches(await subject.backend.confirm(id ?? ''), { kind: 'granted' })
    await subject.advance(983.334)
    matches(await subject.backend.confirm(ids[0] ?? ''), { kind: 'granted' })
    await subject.advance(1000)
    for (const id of [ids[1], ids[3]]) matches(await subject.backend.confirm(id ?? ''), { kind: 'granted' })
    await subject.advance(8016.666)
    matches(await subject.backend.confirm(ids[5] ?? ''), { kind: 'granted' })
    equal(await subject.ask('crm', 'crm', 'even', 'even', 'window'), [
      'go',
      'crm 1000',
      'go',
      'even 1000',
      'window 10000',
    ])
  },

  'made under an override and given back before its end leave no unit more': async (subject) => {
    await subject.define({ crm: { rate: 1, per: '1s', burst: 1 }, even: { every: '1s' } })
    for (const limit of ['crm', 'even']) await override(subject, limit, SLOW[limit as 'crm'])
    await subject.granted(['crm', 'even'])
    const book = async (limit: string): Promise<string> => {
      const answer = await subject.backend.reserve(request(limit), 100 * SECOND_US)
      return answer.kind === 'booked' ? answer.id : ''
    }
    for (const limit of ['crm', 'even']) {
      const first = await book(limit)
      const second = await book(limit)
      equal(await subject.backend.cancel(second), true)
      equal(await subject.backend.cancel(first), true)
    }
    equal(await subject.ask('crm', 'even'), ['crm 60983.334', 'even 60000'])
    for (const limit of ['crm', 'even']) await book(limit)
    await subject.advance(60_000)
    equal(await subject.ask('crm', 'even'), ['crm 1983.334', 'even 1000'])
  },

  'for after the end of a looser override find their units': async (subject) => {
    await subject.define({ crm: { window: 'fixed', max: 2, per: '1d' }, slow: { every: '61s' } })
    await override(subject, 'crm', { max: 5 })
    const both = ['crm', 'slow']
    for (const startAfterUs of [0, 61 * SECOND_US]) {
      const answer = await subject.backend.reserve(request(both), 100 * SECOND_US)
      matches(answer, { kind: 'booked', startAfterUs })
    }
    const answers = await subject.ask('crm', 'crm')
    equal(answers.includes('go'), false)
  },

  'given back between two ends of overrides leave no start closer': async (subject) => {
    await subject.define({ crm: { every: '1s' } })
    const rest = { kind: 'override', limit: 'crm', by: null, reason: null } as const
    await subject.backend.change({ ...rest, key: null, change: { every: '30s' }, forUs: 10 * SECOND_US })
    await subject.backend.change({ ...rest, key: 'a', change: { every: '1m' }, forUs: 20 * SECOND_US })
    await subject.granted('crm:a')
    const book = async (startAfterUs: number): Promise<string> => {
      const answer = await subject.backend.reserve(request('crm:a'), 100 * SECOND_US)
      matches(answer, { kind: 'booked', startAfterUs })
      return answer.kind === 'booked' ? answer.id : ''
    }
    await book(20 * SECOND_US)
    const last = await book(21 * SECOND_US)
    await subject.advance(15_000)
    equal(await subject.backend.cancel(last), true)
    await book(6 * SECOND_US)
  },

  'given back under an override to a longer interval leave no start closer than it allows': async (subject) => {
    await subject.define({ crm: { rate: 1, per: '1s', burst: 1 }, even: { every: '1s' } })
    await subject.granted(['crm', 'even'])
    const ids: string[] = []
    for (const limit of ['crm', 'even', 'crm', 'even']) {
      const answer = await subject.backend.reserve(request(limit), 100 * SECOND_US)
      if (answer.kind === 'booked') ids.unshift(answer.id)
    }
    await override(subject, 'crm', { per: '10s' })
    await override(subject, 'even', { every: '10s' })
    for (const id of ids) equal(await subject.backend.cancel(id), true)
    equal(await subject.ask('crm', 'even'), ['crm 10000', 'even 10000'])
  },

  'given back in another order than they were booked keep what later ones count on': async (subject) => {
    await subject.define({ crm: { rate: 1, per: '1s', burst: 1 }, even: { every: '1s' } })
    await subject.granted(['crm', 'even'])
    for (const limit of ['crm', 'even']) {
      const [first = '', second = ''] = await booked(subject, 2, limit)
      await override(subject, limit, limit === 'crm' ? { per: '10s' } : { every: '10s' })
      equal(await subject.backend.cancel(first), true)
      equal(await subject.ask(limit), [`${limit} 12000`])
      equal(await subject.backend.cancel(second), true)
      equal(await subject.ask(limit), [`${limit} 11000`])
    }
  },

  'for before the end of a faster override that begin after it keep the rules that hold then': async (subject) => {
    await subject.define({
      crm: { rate: 1, per: '1s', burst: 1 },
      even: { every: '1s' },
      window: { window: 'sliding', max: 1, per: '1s', guard: 0 },
    })
    const fast: Record<string, PolicyChange> = {
      crm: { rate: 10, burst: 3 },
      even: { every: '10ms' },
      window: { max: 3 },
    }
    const kinds: string[] = []
    const late: string[] = []
    for (const [limit, change] of Object.entries(fast)) {
      await override(subject, limit, change, SECOND_US / 2)
      late.push(...(await booked(subject, 3, limit)))
    }
    await subject.advance(600)
    for (const id of late) kinds.push((await subject.backend.confirm(id)).kind)
    // The window still counts the three instants that were booked.
    equal(kinds, ['granted', 'wait', 'wait', 'wait', 'wait', 'wait', 'wait', 'wait', 'wait'])
    await subject.advance(420)
    for (const limit of [3, 6]) kinds.splice(limit, 1, (await subject.backend.confirm(late[limit] ?? '')).kind)
    for (const limit of [4, 7]) kinds.splice(limit, 1, (await subject.backend.confirm(late[limit] ?? '')).kind)
    equal(kinds, ['granted', 'wait', 'wait', 'granted', 'wait', 'wait', 'granted', 'wait', 'wait'])
  },

  'begin outside the guard of the rule that holds at their instant': async (subject) => {
    await subject.define({ crm: { window: 'fixed', max: 1, per: '5m', guard: '1s' } })
    const [, next] = await subject.ask('crm', 'crm')
    await subject.advance(Number(next?.slice(4)))
    await override(subject, 'crm', { guard: 0 })
    // The second one is for the next window, after the end.
    const ids = await booked(subject, 2, 'crm', 600 * SECOND_US)
    await subject.advance(299_500)
    matches(await subject.backend.confirm(ids[0] ?? ''), { kind: 'wait' })
    await subject.advance(300_000)
    matches(await subject.backend.confirm(ids[1] ?? ''), { kind: 'wait' })
  },

  'that no rule after an end could bear, or that are paused, are denied': async (subject) => {
    await subject.define({
      crm: { window: 'fixed', max: 1, per: '1d' },
      paused: { window: 'fixed', max: 2, per: '1d', timezone: 'Europe/Paris' },
    })
    await override(subject, 'crm', { max: 6 })
    await subject.granted('crm*6')
    await override(subject, 'paused', { concurrency: 0 })
    for (const uses of ['crm*2', 'paused'])
      matches(await subject.backend.reserve(request(uses), 200_000 * SECOND_US), { kind: 'denied' })
  },

  'go to the end if a later one has taken their place': async (subject) => {
    await subject.define({ crm: { rate: 1, per: '1s', burst: 1 } })
    const ids = await booked(subject, 4)
    await subject.advance(2000)
    matches(await subject.backend.confirm(ids[2] ?? ''), { kind: 'granted' })
    matches(await subject.backend.confirm(ids[1] ?? ''), { kind: 'wait', startAfterUs: 2_000_000 })
    await subject.advance(1000)
    matches(await subject.backend.confirm(ids[3] ?? ''), { kind: 'granted' })
    await subject.advance(1000)
    matches(await subject.backend.confirm(ids[1] ?? ''), { kind: 'granted' })
  },
}

/** An override each that is far slower than the limit. */
const SLOW = { crm: { rate: 1, per: '1h' }, even: { every: '1h' }, window: { per: '1h' } } as const

/** Begins an override, of a minute if nothing else is said. */
async function override(
  subject: Subject,
  limit: string,
  change: PolicyChange,
  forUs: number = 60 * SECOND_US,
): Promise<void> {
  const rest = { key: null, forUs, by: null, reason: null } as const
  await subject.backend.change({ kind: 'override', limit, change, ...rest })
}

/** Books so many starts; it answers their ids. */
async function booked(
  subject: Subject,
  count: number,
  limit = 'crm',
  atMostUs: number = 10 * SECOND_US,
): Promise<string[]> {
  const ids: string[] = []
  for (let i = 0; i < count; i++) {
    const answer = await subject.backend.reserve(request(limit), atMostUs)
    if (answer.kind === 'booked') ids.push(answer.id)
  }
  return ids
}
