import { equal, matches } from './expectations.ts'
import { type Cases, request, SECOND_US } from './subject.ts'

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

  'that are confirmed late do not begin together': async (subject) => {
    await subject.define({ crm: { every: '1s' } })
    const ids: string[] = []
    for (let i = 0; i < 3; i++) {
      const answer = await subject.backend.reserve(request('crm'), 10 * SECOND_US)
      if (answer.kind === 'booked') ids.push(answer.id)
    }
    await subject.advance(10_000)
    const kinds: string[] = []
    for (const id of ids) kinds.push((await subject.backend.confirm(id)).kind)
    equal(kinds, ['granted', 'wait', 'wait'])
  },
}
