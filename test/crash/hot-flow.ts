import { appendFileSync } from 'node:fs'
import { input, limit } from '../../src/exports/index.ts'
import { type Startable, workflow } from '../../src/exports/flows.ts'
import { sized } from '../sized.ts'

/** The budget of the one key that all flows need, per second. */
export const RATE: number = sized(200, 1000)
export const BURST: number = RATE / 10

/** A flow of one step under the budget. Each start is a line of the witness: the flow's number, and µs of the steady clock. */
export function hotFlow(isShared: boolean, witness: string): Startable<{ n: number }, number> {
  const policy = { rate: RATE, per: '1s', burst: BURST } as const
  const pace = limit('pace', isShared ? { ...policy, backend: 'shared' } : policy)
  return workflow('hot', input<{ n: number }>(), {
    run: ({ n }, flow) =>
      flow.step('s', { limits: [pace.key('hot')] }, () => {
        appendFileSync(witness, `${n} ${process.hrtime.bigint() / 1000n}\n`)
        return n
      }),
  })
}
