import { appendFileSync } from 'node:fs'
import { input, limit } from '../../src/exports/index.ts'
import { graph, machine, type Startable, workflow } from '../../src/exports/flows.ts'

/** The name needs to be escaped in JSON. */
export const DEADLY = 'deadly "one"'

/** A flow with a bad input kills the process of its step `DEADLY`. */
export interface Dose {
  readonly bad: boolean
}

/** One flow of each door: a step `before`, then the step `DEADLY` under attempts of its own. Each start of a step is a line of the witness. */
export function poisonFlows(witness: string): readonly Startable<Dose, null>[] {
  const dose = input<Dose>()
  const seen = (line: string): void => appendFileSync(witness, `${line}\n`)
  const die = ({ bad }: Dose, key: string): void => {
    seen(`${bad ? 'bad' : 'good'} ${key}`)
    if (bad) process.kill(process.pid, 'SIGKILL')
  }
  const doses = limit('doses', { rate: 1000, per: '1s' })
  const retry = { attempts: 3, backoff: 'none' } as const
  return [
    machine('poison.machine', {
      states: { before: dose, [DEADLY]: dose },
      first: 'before',
      result: input<null>(),
      retry,
      run: {
        before: (state, to) => to.next(DEADLY, state),
        [DEADLY]: (state, to) => (die(state, to.key), to.done(null)),
      },
    }),
    workflow('poison.workflow', dose, {
      defaults: { retry },
      run: async (given, flow) => {
        await flow.step('before', () => 1)
        await flow.step(DEADLY, { limits: [doses] }, ({ key }) => die(given, key))
        return null
      },
    }),
    // In the slot of its entry, and in that of a graph.
    workflow('poison.in_place', dose, {
      defaults: { retry },
      run: async (given, flow) => {
        await flow.step('before', () => 1)
        await flow.step(DEADLY, ({ key }) => die(given, key))
        return null
      },
    }),
    graph('poison.graph', dose)
      .step('before', () => 1)
      .after('before')
      .step('deadly', { retry }, ({ input: given }, { key }) => die(given, key))
      .output(() => null),
  ]
}
