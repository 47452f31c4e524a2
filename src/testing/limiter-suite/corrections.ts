import { equal, matches, refused } from './expectations.ts'
import { type Cases, SECOND_US } from './subject.ts'

/** Charges, penalties and reports correct one bucket. */
export const CORRECTIONS: Cases = {
  'a charge takes more, into debt; a negative one returns units': async (subject) => {
    await subject.define({ crm: { rate: 10, per: '1s' } })
    const { atUs } = await subject.granted('crm*10')
    await subject.backend.charge({ limit: 'crm', key: '' }, -4, atUs)
    equal(await subject.ask('crm*4', 'crm'), ['go', 'crm 100'])
    await subject.backend.charge({ limit: 'crm', key: '' }, 5, atUs)
    equal(await subject.ask('crm'), ['crm 600'])
    equal((await subject.backend.inspect({ limit: 'crm', key: '' }))?.debt, 5)
  },

  'a charge of one name is carried out once, if the backend names charges': async (subject) => {
    if (subject.backend.namesCharges !== true) return
    await subject.define({ crm: { rate: 10, per: '1s' } })
    const crm = { limit: 'crm', key: '' }
    const { atUs } = await subject.granted('crm*10')
    const back = (): Promise<void> => subject.backend.charge(crm, -4, atUs, { id: 'back', forUs: SECOND_US })
    await Promise.all([back(), back()])
    await back()
    equal((await subject.backend.inspect(crm))?.available, 4)
    const taken = { id: 'taken', forUs: SECOND_US }
    for (let n = 0; n < 2; n++) await subject.backend.charge(crm, 3, atUs, taken)
    equal((await subject.backend.inspect(crm))?.available, 1)
  },

  'a limit that counts no units refuses a charge, and stays as it is': async (subject) => {
    await subject.define({ paced: { every: '1s' }, slots: { concurrency: 2 } })
    const { atUs } = await subject.granted('paced')
    await subject.granted('slots')
    for (const [limit, units] of [
      ['paced', 3],
      ['slots', 3],
      ['slots', -1],
    ] as const)
      await refused(subject.backend.charge({ limit, key: '' }, units, atUs), 'option.invalid')
    equal(await subject.ask('paced', 'slots', 'slots'), ['paced 1000', 'go', 'slots permit'])
  },

  'a refused charge stops no other change of its bucket': async (subject) => {
    await subject.define({ paced: { every: '1s' } })
    const paced = { limit: 'paced', key: '' }
    const charged = refused(subject.backend.charge(paced, 3, 0), 'option.invalid')
    equal(await subject.backend.penalize(paced, 2 * SECOND_US), true)
    await charged
    equal(await subject.ask('paced'), ['paced 2000'])
  },

  'units that return to a limit of spacing give its last start back': async (subject) => {
    await subject.define({ paced: { every: '1s' } })
    const { atUs } = await subject.granted('paced')
    await subject.backend.charge({ limit: 'paced', key: '' }, -1, atUs)
    equal(await subject.ask('paced', 'paced'), ['go', 'paced 1000'])
  },

  'a penalty closes the bucket for all, and leaves one unit at its end': async (subject) => {
    await subject.define({ crm: { rate: 10, per: '1s' } })
    equal(await subject.backend.penalize({ limit: 'crm', key: 'a' }, 3 * SECOND_US), true)
    equal(await subject.backend.penalize({ limit: 'crm', key: 'a' }, SECOND_US), false)
    equal(await subject.ask('crm:a', 'crm:b'), ['crm:a 3000', 'go'])
    await subject.advance(3000)
    equal(await subject.ask('crm:a', 'crm:a'), ['go', 'crm:a 100'])
  },

  'a report bounds the bucket until its reset': async (subject) => {
    await subject.define({ crm: { rate: 100, per: '1s' } })
    const report = { remaining: 2, resetInUs: 10 * SECOND_US, direction: 'down', reset: 'window' } as const
    equal(await subject.backend.calibrate({ limit: 'crm', key: '' }, report), true)
    equal(await subject.ask('crm', 'crm', 'crm'), ['go', 'go', 'crm 10000'])
    await subject.advance(10_000)
    equal(await subject.ask('crm*100'), ['go'])
  },

  'forget makes a bucket new': async (subject) => {
    await subject.define({ crm: { rate: 1, per: '1h' } })
    await subject.granted('crm')
    await subject.backend.forget({ limit: 'crm', key: '' })
    equal(await subject.ask('crm', 'crm'), ['go', 'crm 3600000'])
  },

  'inspect tells units, permits and penalties': async (subject) => {
    await subject.define({ crm: { rate: 10, per: '1s', concurrency: 4 } })
    await subject.granted('crm*3')
    const name = { limit: 'crm', key: '' }
    matches(await subject.backend.inspect(name), {
      available: 3,
      debt: 0,
      capacity: 10,
      active: 1,
      nextInUs: 0,
      closedForUs: 0,
      overrides: [],
    })
    await subject.backend.penalize(name, SECOND_US)
    matches(await subject.backend.inspect(name), { available: 0, nextInUs: SECOND_US, closedForUs: SECOND_US })
    equal(await subject.backend.inspect({ limit: 'none', key: '' }), null)
    matches(await subject.backend.inspect({ limit: 'crm', key: 'new' }), { available: 4, active: 0 })
  },
}
