import { appendFileSync } from 'node:fs'
import { input, limit } from '../../src/exports/index.ts'
import { graph, machine, type Move, type Startable, type To, workflow } from '../../src/exports/flows.ts'

/** Steps of each flow. */
export const STEPS = 8

const PACE = { rate: 400, per: '1s', burst: 40 } as const
const RETRY = { attempts: 50, backoff: 'none' } as const
const step = input<{ sum: number }>()

/** The flows whose processes are killed. Each start of a step is a line of the witness: its key and its name. */
export function crashFlows(witness: string): {
  readonly crashed: Startable<{ n: number }, number>
  readonly stepped: Startable<{ sum: number }, number>
  readonly linked: Startable<{ n: number }, number>
} {
  const pace = limit('pace', PACE)
  const seen = (key: string): void => appendFileSync(witness, `${key}\n`)
  const crashed = workflow('crashed', input<{ n: number }>(), {
    defaults: { retry: RETRY },
    run: async ({ n }, flow) => {
      let sum = n
      for (let i = 0; i < STEPS - 2; i++)
        sum += await flow.step(`s${i}`, i % 2 === 1 ? { limits: [pace] } : {}, async ({ key }) => {
          seen(key)
          await new Promise((resolve) => setImmediate(resolve))
          return i
        })
      const side = (name: string): Promise<number> => flow.step(name, { limits: [pace] }, ({ key }) => (seen(key), 1))
      const [a, b] = await Promise.all([side('a'), side('b')])
      return sum + a + b
    },
  })
  const names = Array.from({ length: STEPS }, (_, i) => `m${i}`)
  const stepped = machine('stepped', {
    states: Object.fromEntries(names.map((name) => [name, step])),
    first: 'm0',
    result: input<number>(),
    retry: RETRY,
    limits: Object.fromEntries(names.filter((_, i) => i % 2 === 1).map((name) => [name, [pace]])),
    run: Object.fromEntries(names.map((name, i) => [name, codeOf(i, seen)])),
  })
  // Two by two: each pair comes after the one before, and every second step is limited.
  const terms = (i: number) => ({ retry: RETRY, ...(i % 2 === 1 && { limits: [pace] }) })
  const at = (i: number, key: string): number => (seen(key), i)
  const linked = graph('linked', input<{ n: number }>())
    .step('g0', terms(0), (_, { key }) => at(0, key))
    .step('g1', terms(1), (_, { key }) => at(1, key))
    .after('g0', 'g1')
    .step('g2', terms(2), (_, { key }) => at(2, key))
    .after('g0', 'g1')
    .step('g3', terms(3), (_, { key }) => at(3, key))
    .after('g2', 'g3')
    .step('g4', terms(4), (_, { key }) => at(4, key))
    .after('g2', 'g3')
    .step('g5', terms(5), (_, { key }) => at(5, key))
    .after('g4', 'g5')
    .step('g6', terms(6), (_, { key }) => at(6, key))
    .after('g6', 'g0', 'g1', 'g2', 'g3', 'g4', 'g5')
    .step('g7', terms(7), ({ g0, g1, g2, g3, g4, g5, g6 }, { key }) => g0 + g1 + g2 + g3 + g4 + g5 + g6 + at(7, key))
    .output(({ input: { n }, g7 }) => n + g7)
  return { crashed, stepped, linked }
}

type State = { readonly [name: string]: typeof step }

function codeOf(i: number, seen: (key: string) => void) {
  return ({ sum }: { sum: number }, to: To<State, {}, number>): Move<number> => {
    seen(to.key)
    return i === STEPS - 1 ? to.done(sum + i) : to.next(`m${i + 1}`, { sum: sum + i })
  }
}
