import { appendFileSync } from 'node:fs'
import { input, limit } from '../../src/exports/index.ts'
import { graph, machine, type Startable, workflow } from '../../src/exports/flows.ts'

/** The steps of one flow of each door, those of its children too. */
export const STEPS_OF_ALL: number = 2 + 3 + 3 + 3

const RETRY = { attempts: 200, backoff: 'none' } as const
const numbered = input<{ n: number }>()

type Numbered = Startable<{ n: number }, number>

/** Flows with children, parallel steps, and limits by the result of a step. Each answers its number. */
export function familyFlows(witness: string): {
  readonly all: readonly Numbered[]
  readonly doors: readonly Numbered[]
} {
  const seen = <T>(key: string, value: T): T => (appendFileSync(witness, `${key}\n`), value)
  const pace = limit('pace', { rate: 200, per: '1s', burst: 20 })
  const child = workflow('child', numbered, {
    defaults: { retry: RETRY },
    run: ({ n }, flow) => flow.step('only', ({ key }) => seen(key, n)),
  })
  const parent = workflow('parent', numbered, {
    defaults: { retry: RETRY },
    run: async ({ n }, flow) => {
      const before = await flow.step('before', { limits: [pace] }, ({ key }) => seen(key, n))
      const ends = await Promise.all([1, 2, 3].map((i) => flow.child(`c${i}`, child, { n: i })))
      const sum = ends.reduce((all, each) => all + each, 0)
      return flow.step('after', ({ key }) => seen(key, before + sum - 6))
    },
  })
  const steps = machine('steps', {
    states: { one: numbered, two: numbered, three: numbered },
    first: 'one',
    result: input<number>(),
    retry: RETRY,
    limits: { two: [pace] },
    run: {
      one: (state, to) => to.next('two', seen(to.key, state)),
      two: (state, to) => to.next('three', seen(to.key, state)),
      three: ({ n }, to) => to.done(seen(to.key, n)),
    },
  })
  const resolved = graph('resolved', numbered)
    .step('up', { retry: RETRY }, ({ input: { n } }, { key }) => seen(key, { tenant: `t${n % 3}` }))
    .after('up')
    .step('pay', { retry: RETRY, limits: [pace.by(({ up }) => up.tenant)] }, ({ input: { n } }, { key }) =>
      seen(key, n),
    )
    .after('up')
    .step('beside', { retry: RETRY }, (_, { key }) => seen(key, 0))
    .output(({ pay, beside }) => pay + beside)
  const doors = [parent, steps, resolved]
  return { all: [...doors, child], doors }
}
