import { appendFileSync } from 'node:fs'
import { input, limit } from '../../src/exports/index.ts'
import { machine, type Move, type Startable, type To, workflow } from '../../src/exports/flows.ts'

/** Steps of each flow. */
export const STEPS = 8

const PACE = { rate: 400, per: '1s', burst: 40 } as const
const RETRY = { attempts: 50, backoff: 'none' } as const
const step = input<{ sum: number }>()

/** The flows whose processes are killed. Each start of a step is a line of the witness: its key and its name. */
export function crashFlows(witness: string): {
  readonly crashed: Startable<{ n: number }, number>
  readonly stepped: Startable<{ sum: number }, number>
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
  return { crashed, stepped }
}

type State = { readonly [name: string]: typeof step }

function codeOf(i: number, seen: (key: string) => void) {
  return ({ sum }: { sum: number }, to: To<State, {}, number>): Move<number> => {
    seen(to.key)
    return i === STEPS - 1 ? to.done(sum + i) : to.next(`m${i + 1}`, { sum: sum + i })
  }
}
