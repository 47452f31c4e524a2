import { equal, matches, refused } from './expectations.ts'
import { type Cases, request, SECOND_US } from './subject.ts'

const change = {
  kind: 'override',
  limit: 'crm',
  key: null,
  change: { rate: 1 },
  forUs: null,
  by: null,
  reason: null,
} as const

/** Definitions, overrides and pauses change a limit while it runs. */
export const CHANGES: Cases = {
  'the higher version wins, then the later call': async (subject) => {
    equal(await subject.define({ crm: { rate: 1, per: '1s', version: 2 } }), ['crm'])
    equal(await subject.define({ crm: { rate: 5, per: '1s', version: 1 } }), [])
    equal(await subject.define({ crm: { rate: 1, per: '1s', version: 2 } }), [])
    equal(await subject.ask('crm', 'crm'), ['go', 'crm 1000'])
    equal(await subject.define({ crm: { rate: 2, per: '1s', version: 2 } }), ['crm'])
    equal(await subject.ask('crm:x', 'crm:x', 'crm:x'), ['go', 'go', 'crm:x 500'])
  },

  'a new definition refills no bucket': async (subject) => {
    await subject.define({ crm: { rate: 10, per: '1s' } })
    await subject.granted('crm*5')
    await subject.define({ crm: { rate: 20, per: '1s' } })
    equal((await subject.backend.inspect({ limit: 'crm', key: '' }))?.available, 5)
    equal(await subject.ask('crm*5', 'crm'), ['go', 'crm 50'])
  },

  'an override ends by itself, to the microsecond': async (subject) => {
    await subject.define({ crm: { rate: 10, per: '1s', burst: 1 } })
    equal(await subject.backend.change({ ...change, forUs: 10 * SECOND_US }), true)
    equal(await subject.ask('crm', 'crm'), ['go', 'crm 1000'])
    await subject.advance(9999.999)
    matches((await subject.backend.inspect({ limit: 'crm', key: '' }))?.policy.rule, { rate: 1 })
    await subject.advance(0.001)
    matches((await subject.backend.inspect({ limit: 'crm', key: '' }))?.policy.rule, { rate: 10 })
    equal(await subject.ask('crm', 'crm'), ['go', 'crm 100'])
    equal(await subject.backend.change({ ...change, change: null }), false)
  },

  'a refusal under an override names the start by the rules after its end': async (subject) => {
    await subject.define({ crm: { every: '1s' }, api: { rate: 1, per: '1s', burst: 1 } })
    await subject.backend.change({ ...change, change: { every: '1h' }, forUs: 60 * SECOND_US })
    await subject.backend.change({ ...change, limit: 'api', change: { rate: 1, per: '1h' }, forUs: 60 * SECOND_US })
    equal(await subject.ask('crm', 'crm', ['api', 'crm:b'], ['api', 'crm:b']), [
      'go',
      'crm 60000',
      'go',
      'api 60983.334',
    ])
    equal((await subject.backend.inspect({ limit: 'crm', key: '' }))?.nextInUs, 60 * SECOND_US)
    await subject.advance(59_999.999)
    equal(await subject.ask('crm', 'api'), ['crm 0.001', 'api 983.335'])
    await subject.advance(0.001)
    equal(await subject.ask('crm', 'crm', 'api'), ['go', 'crm 1000', 'api 983.334'])
    await subject.advance(983.334)
    equal(await subject.ask('api', 'api'), ['go', 'api 1000'])
  },

  'no override empties a window that is used up while a start is booked in the next': async (subject) => {
    await subject.define({ crm: { window: 'fixed', max: 3, per: '1h' } })
    await subject.granted('crm*3')
    const [before] = await subject.ask('crm')
    const booked = await subject.backend.reserve(request('crm'), 3600 * SECOND_US)
    matches(booked, { kind: 'booked' })
    await subject.backend.change({ ...change, change: { max: 2 }, forUs: 1000 })
    await subject.advance(1)
    equal(await subject.ask('crm'), [`crm ${Number(before?.slice(4)) - 1}`])
    await subject.backend.cancel(booked.kind === 'booked' ? booked.id : '')
    equal(await subject.ask('crm'), [`crm ${Number(before?.slice(4)) - 1}`])
  },

  'no start is granted ahead for after the end of an override': async (subject) => {
    await subject.define({ crm: { every: '1s' } })
    await subject.backend.change({ ...change, change: { every: '1h' }, forUs: 60 * SECOND_US })
    await subject.granted('crm')
    await subject.advance(59_990)
    for (const more of [{ aheadUs: 10_000 }, { withinUs: 100_000 }]) {
      const [answer] = await subject.backend.acquire([request('crm', more)])
      matches(answer, { kind: 'denied', retryAfterUs: 10_000 })
    }
    await subject.advance(10)
    equal(await subject.ask('crm', 'crm'), ['go', 'crm 1000'])
  },

  'a start that is granted ahead is asked for in time for its lead, from the end of an override on': async (
    subject,
  ) => {
    await subject.define({ crm: { every: '1s' } })
    await subject.backend.change({ ...change, change: { every: '1h' }, forUs: 60 * SECOND_US })
    await subject.advance(59_500)
    await subject.granted('crm')
    await subject.advance(490)
    const [answer] = await subject.backend.acquire([request('crm', { aheadUs: 10_000 })])
    matches(answer, { kind: 'denied', retryAfterUs: 500_000 })
  },

  'starts are granted ahead across an end that changes nothing': async (subject) => {
    await subject.define({ crm: { every: '1s' } })
    await subject.backend.change({ ...change, change: { every: '1s' }, forUs: 60 * SECOND_US })
    await subject.advance(59_500)
    await subject.granted('crm')
    await subject.advance(490)
    const [answer] = await subject.backend.acquire([request('crm', { withinUs: 600_000 })])
    matches(answer, { kind: 'granted' })
  },

  'a refusal counts on the end of a higher override, and on the first of two ends': async (subject) => {
    await subject.define({ crm: { window: 'sliding', max: 1, per: '10s', guard: 0 } })
    await subject.backend.change({ ...change, change: { max: 2, per: '2s' }, forUs: 3 * SECOND_US })
    await subject.backend.change({ ...change, key: 'a', change: { per: '1h' }, forUs: SECOND_US })
    equal(await subject.ask('crm:a*2', 'crm:a', 'crm:b*2', 'crm:b'), ['go', 'crm:a 2000', 'go', 'crm:b 2000'])
    await subject.advance(2000)
    equal(await subject.ask('crm:b*2', 'crm:b'), ['go', 'crm:b 10000'])
  },

  'an override of one key leaves the others': async (subject) => {
    await subject.define({ crm: { rate: 10, per: '1s', burst: 1 } })
    await subject.backend.change({ ...change, key: 'a' })
    equal(await subject.ask('crm:a', 'crm:a', 'crm:b', 'crm:b'), ['go', 'crm:a 1000', 'go', 'crm:b 100'])
    equal(await subject.backend.change({ ...change, key: 'a', change: null }), true)
    await subject.advance(1000)
    equal(await subject.ask('crm:a', 'crm:a'), ['go', 'crm:a 100'])
  },

  'a pause stops all starts, and resumes': async (subject) => {
    await subject.define({ crm: { rate: 10, per: '1s' } })
    await subject.backend.change({ ...change, kind: 'pause', change: {}, forUs: 5 * SECOND_US })
    equal(await subject.ask('crm'), ['crm permit'])
    await subject.advance(5000)
    equal(await subject.ask('crm'), ['go'])
    await subject.backend.change({ ...change, kind: 'pause', change: {} })
    equal(await subject.ask('crm'), ['crm permit'])
    equal(await subject.backend.change({ ...change, kind: 'pause', change: null }), true)
    equal(await subject.ask('crm'), ['go'])
  },

  'of an unknown limit or an invalid value are refused': async (subject) => {
    await refused(subject.backend.change(change), 'limit.unknown')
    await subject.define({ crm: { rate: 10, per: '1s' } })
    await refused(subject.backend.change({ ...change, change: { max: 5 } }), 'policy.invalid')
  },
}
