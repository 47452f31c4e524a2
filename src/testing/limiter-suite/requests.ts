import type { UnitAnswer } from '../../limiter/contract/limiter.ts'
import type { Policy } from '../../policy/limits/policy.ts'
import { equal } from './expectations.ts'
import { type Cases, request, shown } from './subject.ts'

/** Names that mean something to the language, to addresses or to servers. */
const NAMES = ['__proto__', 'constructor', 'a/b', 'a b', '%2F%', '{a}', "'", '>', '\n', 'ü☃']

/** Requests are granted whole or not at all. */
export const REQUESTS: Cases = {
  'are granted whole or not at all': async (subject) => {
    await subject.define({ a: { rate: 1, per: '1s' }, b: { rate: 5, per: '10s' } })
    equal(await subject.ask('a', ['a', 'b']), ['go', 'a 1000'])
    equal(await subject.ask('b', 'b', 'b', 'b', 'b', 'b'), ['go', 'go', 'go', 'go', 'go', 'b 2000'])
    equal(await subject.ask(['a', 'b']), ['b 2000'])
  },

  'of a tenant that is denied cost the shared budget nothing': async (subject) => {
    await subject.define({ a: { rate: 5, per: '10s' }, b: { rate: 100, per: '10s' } })
    const first = Array.from({ length: 50 }, () => ['a:t0', 'b'])
    const rest = Array.from({ length: 19 }, (_, i) => Array.from({ length: 5 }, () => [`a:t${i + 1}`, 'b'])).flat()
    const answers = await subject.ask(...first, ...rest)
    equal(answers.filter((each) => each === 'go').length, 100)
    equal(answers[5], 'a:t0 2000')
    equal(await subject.ask('b'), ['b 100'])
  },

  'of one line stop at the first denial': async (subject) => {
    await subject.define({ crm: { rate: 10, per: '1s', burst: 3 } })
    const line = ['crm', 'crm*3', 'crm'].map((uses) => request(uses, { line: 0 }))
    equal((await subject.backend.acquire([...line, request('crm', { line: 1 })])).map(shown), [
      'go',
      'crm 100',
      'crm 100',
      'go',
    ])
  },

  'of calls that are made at once have lines of their own': async (subject) => {
    await subject.define({ a: { rate: 1, per: '10s' }, b: { rate: 9, per: '10s' } })
    const call = (key: string): Promise<readonly UnitAnswer[]> =>
      subject.backend.acquire([1, 2].map(() => request([`a:${key}`, 'b'], { line: 0 })))
    const answers = (await Promise.all(['x', 'y', 'z'].map(call))).map((each) => each.map(shown))
    equal(answers, [
      ['go', 'a:x 10000'],
      ['go', 'a:y 10000'],
      ['go', 'a:z 10000'],
    ])
  },

  'for a limit that is not defined are unknown, and take nothing': async (subject) => {
    await subject.define({ crm: { rate: 1, per: '1s' } })
    equal(await subject.ask(['crm', 'none'], 'crm'), ['unknown', 'go'])
  },

  'for a later instant count from then, or are granted for now': async (subject) => {
    await subject.define({ crm: { rate: 1, per: '1s' } })
    const { startInUs = 0 } = await subject.granted('crm', { aheadUs: 200_000, withinUs: 100_000 })
    equal([0, 200_000].includes(startInUs), true)
    equal(await subject.ask('crm'), [`crm ${1000 + startInUs / 1000}`])
  },

  'of different keys have budgets of their own': async (subject) => {
    await subject.define({ crm: { rate: 1, per: '1s' } })
    equal(await subject.ask('crm:a', 'crm:b', 'crm:a', 'crm:ü☃'), ['go', 'go', 'crm:a 1000', 'go'])
  },

  'of limits and keys with any name have budgets of their own': async (subject) => {
    const all = (rate: number): Record<string, Policy> =>
      Object.fromEntries(NAMES.map((name) => [name, { rate, per: '1s' }]))
    await subject.define(all(1))
    for (const name of NAMES) {
      equal(await subject.ask(name, `${name}:${name}`, name), ['go', 'go', `${name} 1000`])
      equal((await subject.backend.inspect({ limit: name, key: name }))?.available, 0)
    }
    await subject.define(all(2))
    equal((await subject.backend.inspect({ limit: 'constructor', key: '' }))?.capacity, 2)
  },
}
