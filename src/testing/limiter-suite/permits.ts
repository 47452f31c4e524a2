import { equal } from './expectations.ts'
import { type Cases, SECOND_US } from './subject.ts'

/** Permits bound what runs at once, and carry a lease. */
export const PERMITS: Cases = {
  'bound what runs at once, and return': async (subject) => {
    await subject.define({ slots: { concurrency: 2 } })
    const first = await subject.permit('slots')
    await subject.granted('slots')
    equal(await subject.ask('slots'), ['slots permit'])
    await subject.backend.release([first, first])
    equal(await subject.ask('slots', 'slots'), ['go', 'slots permit'])
  },

  'return when their lease is over, and none before': async (subject) => {
    await subject.define({ slots: { concurrency: 10 } })
    for (let i = 0; i < 10; i++) await subject.granted('slots', { leaseUs: 2 * SECOND_US })
    await subject.advance(1999.999)
    equal(await subject.ask('slots'), ['slots permit'])
    await subject.advance(0.001)
    equal(await subject.ask(...Array.from({ length: 11 }, () => 'slots')), [
      ...Array.from({ length: 10 }, () => 'go'),
      'slots permit',
    ])
  },

  'are held by extending the lease; an ended one is told': async (subject) => {
    await subject.define({ slots: { concurrency: 1 } })
    const permit = await subject.permit('slots', { leaseUs: SECOND_US })
    await subject.advance(900)
    equal(await subject.backend.extend([permit], SECOND_US), [])
    await subject.advance(999)
    equal(await subject.ask('slots'), ['slots permit'])
    await subject.advance(1)
    equal(
      (await subject.backend.extend([permit], SECOND_US)).map(({ id }) => id),
      [permit.id],
    )
    equal(await subject.ask('slots'), ['go'])
  },

  'are taken once by a call that is repeated': async (subject) => {
    await subject.define({ slots: { concurrency: 2 } })
    await subject.granted('slots', { permit: 'same' })
    await subject.granted('slots', { permit: 'same' })
    equal((await subject.backend.inspect({ limit: 'slots', key: '' }))?.active, 1)
  },

  'are not taken by a request that another limit denies': async (subject) => {
    await subject.define({ slots: { concurrency: 1 }, crm: { rate: 1, per: '1s' } })
    await subject.granted('crm')
    equal(await subject.ask(['crm', 'slots'], 'slots'), ['crm 1000', 'go'])
  },
}
