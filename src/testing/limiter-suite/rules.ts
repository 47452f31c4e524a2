import { equal, ok } from './expectations.ts'
import { type Cases, request } from './subject.ts'

/** Each kind of rule grants what it says, and names the exact wait. */
export const RULES: Cases = {
  'a rate grants its burst, and names the exact wait for the next': async (subject) => {
    await subject.define({ crm: { rate: 10, per: '1s', burst: 3 } })
    equal(await subject.ask('crm', 'crm', 'crm', 'crm'), ['go', 'go', 'go', 'crm 100'])
    await subject.advance(99.999)
    equal(await subject.ask('crm'), ['crm 0.001'])
    await subject.advance(0.001)
    equal(await subject.ask('crm', 'crm'), ['go', 'crm 100'])
  },

  'a rate of three a second does not drift': async (subject) => {
    await subject.define({ crm: { rate: 3, per: '1s', burst: 1 } })
    const waits: string[] = []
    for (let i = 0; i < 4; i++) {
      const [, wait = ''] = await subject.ask('crm', 'crm')
      waits.push(wait)
      await subject.advance(Number(wait.split(' ')[1]))
    }
    equal(waits, ['crm 333.334', 'crm 333.333', 'crm 333.333', 'crm 333.334'])
  },

  'a sliding window frees each unit when it leaves': async (subject) => {
    await subject.define({ crm: { window: 'sliding', max: 2, per: '1s', guard: 0 } })
    equal(await subject.ask('crm'), ['go'])
    await subject.advance(400)
    equal(await subject.ask('crm', 'crm'), ['go', 'crm 600'])
    await subject.advance(600)
    equal(await subject.ask('crm', 'crm'), ['go', 'crm 400'])
  },

  'a fixed window begins anew at its edge, and keeps a guard before it': async (subject) => {
    await subject.define({ crm: { window: 'fixed', max: 2, per: '1h', guard: '10m' } })
    const [, , denied = ''] = await subject.ask('crm', 'crm', 'crm')
    const wait = Number(denied.split(' ')[1])
    ok(wait > 0, 'the wait for the next window is positive')
    await subject.advance(wait - 60_000)
    await subject.backend.forget({ limit: 'crm', key: '' })
    equal(await subject.ask('crm'), ['crm 60000'])
    await subject.advance(60_000)
    equal(await subject.ask('crm', 'crm'), ['go', 'go'])
  },

  'a calendar window lasts until midnight of its time zone': async (subject) => {
    await subject.define({ crm: { window: 'fixed', max: 1, per: '1d', timezone: 'Europe/Paris' } })
    const [first, denied = ''] = await subject.ask('crm', 'crm')
    equal(first, 'go')
    const wait = Number(denied.split(' ')[1])
    ok(wait <= 25 * 3_600_000, 'a day has at most 25 hours')
    await subject.advance(wait - 0.001)
    equal(await subject.ask('crm'), ['crm 0.001'])
    await subject.advance(0.001)
    equal(await subject.ask('crm', 'crm:x'), ['go', 'go'])
  },

  'a spacing keeps starts apart, beside a rate too': async (subject) => {
    await subject.define({ mail: { every: '200ms' }, both: { rate: 2, per: '10s', every: '1s' } })
    equal(await subject.ask('mail', 'mail', 'both', 'both'), ['go', 'mail 200', 'go', 'both 1000'])
    await subject.advance(1000)
    equal(await subject.ask('mail', 'both', 'both'), ['go', 'go', 'both 4000'])
  },

  'startEmpty begins with one unit': async (subject) => {
    await subject.define({ crm: { rate: 10, per: '1s', startEmpty: true } })
    equal(await subject.ask('crm', 'crm'), ['go', 'crm 100'])
  },

  'weights are units, and headroom keeps some back': async (subject) => {
    await subject.define({ crm: { rate: 10, per: '1s', headroom: { units: 4, priority: 10 } } })
    equal(await subject.ask('crm*6', 'crm'), ['go', 'crm 100'])
    const [urgent] = await subject.backend.acquire([request('crm*4', { priority: 10 })])
    equal(urgent?.kind, 'granted')
  },

  'numbers of any size stay exact': async (subject) => {
    await subject.define({ big: { rate: 999_999_937, per: '1d', burst: 1_000_000_000 } })
    equal(await subject.ask('big*1000000000', 'big*999999999'), ['go', 'big 86400005.357'])
  },
}
