// Flows drawn at random: what they do as a plan, the code of each door that does it, and the result that it must have.
import type { Random } from '../../src/base/random.ts'
import { input, limit, task, type Task } from '../../src/exports/index.ts'
import type { Limit } from '../../src/policy/limits/define.ts'
import { child, graph, machine, type Startable, workflow } from '../../src/exports/flows.ts'

/** One thing that a flow does. Each adds its number to the result. */
export type Act = { readonly name: string; readonly value: number } & (
  | { readonly kind: 'step'; readonly limit: Budget | null; readonly failures: number }
  | { readonly kind: 'call' }
  | { readonly kind: 'map'; readonly items: number }
  | { readonly kind: 'sleep'; readonly ms: number }
  | { readonly kind: 'signal' }
  | { readonly kind: 'child' }
)
type Budget = 'rate' | 'window' | 'slots'

/** A flow: what it does, group by group; what is in one group it does side by side. */
export interface Plan {
  readonly door: 'workflow' | 'machine' | 'graph'
  readonly name: string
  readonly groups: readonly (readonly Act[])[]
}

/** One start of the code of a step. */
export interface Start {
  readonly flow: string
  readonly key: string
  readonly limit: Budget | null
  /** Starts of this step if nothing is repeated: attempts that fail as drawn count too. */
  readonly wanted: number
  readonly atUs: number
}

/** Where the starts of steps are noted. */
export interface Witness {
  readonly nowUs: () => number
  readonly starts: Start[]
}

const numbered = input<{ n: number }>()
const RETRY = { attempts: 60, backoff: 'none' } as const
/** The budgets of all plans. The bounds that the test checks are theirs. */
export const BUDGETS: Readonly<Record<Budget, Limit>> = {
  rate: limit('sim-rate', { rate: 20, per: '1s', burst: 5 }),
  window: limit('sim-window', { window: 'sliding', max: 15, per: '1s', guard: 0 }),
  slots: limit('sim-slots', { concurrency: 2 }),
}

/** Draws a plan. */
export function drawPlan(random: Random, at: number): Plan {
  const below = (n: number): number => Math.floor(random.next() * n)
  const door = (['workflow', 'machine', 'graph'] as const)[below(3)] ?? 'workflow'
  let acts = 0
  let signals = 0
  const act = (isAlone: boolean): Act => {
    const own = { name: `a${acts++}`, value: 1 + below(9) }
    const roll = random.next()
    if (roll < 0.25) return { ...own, kind: 'step', limit: null, failures: below(2) }
    if (roll < 0.6) {
      const budget = (['rate', 'window', 'slots'] as const)[below(3)] ?? 'rate'
      return { ...own, kind: 'step', limit: budget, failures: below(2) }
    }
    // A machine does one thing at a time, and calls no task.
    if (roll < 0.7) return door === 'machine' ? { ...own, kind: 'child' } : { ...own, kind: 'call' }
    if (roll < 0.78) return door === 'machine' ? { ...own, kind: 'child' } : { ...own, kind: 'map', items: below(4) }
    if (roll < 0.86) return { ...own, kind: 'sleep', ms: 1 + below(3000) }
    // Signals side by side would be of one name. A machine is handed all that have come at once.
    if (roll < 0.93 && isAlone && (door !== 'machine' || signals++ === 0)) return { ...own, kind: 'signal' }
    return { ...own, kind: 'child' }
  }
  const groups = Array.from({ length: 1 + below(4) }, () => {
    const width = door === 'machine' || random.next() < 0.5 ? 1 : 2 + below(3)
    return Array.from({ length: width }, () => act(width === 1))
  })
  return { door, name: `sim.${door}${at}`, groups }
}

/** The result that every flow of a plan must have. */
export function resultOf(plan: Plan): number {
  // Each signal of a flow carries its number, and is handed over once.
  const carried = signalsOf(plan).reduce((sum, _, n) => sum + n, 0)
  return (
    carried + plan.groups.flat().reduce((sum, act) => sum + (act.kind === 'map' ? act.value * act.items : act.value), 0)
  )
}

/** The names of the signals that a flow of a plan takes. In a graph each is a step of its own. */
export function signalsOf({ door, groups }: Plan): string[] {
  return groups.flat().flatMap(({ kind, name }) => (kind === 'signal' ? [door === 'graph' ? name : 'go'] : []))
}

/** The code of plans, as each process has it. */
export function codeOf(
  plans: readonly Plan[],
  witness: Witness,
): { tasks: Task<never, never, never>[]; workflows: Startable<{ n: number }, number, never>[] } {
  const echo = task('sim.echo', numbered, { retry: RETRY, run: ({ n }) => n })
  const kid = workflow('sim.kid', numbered, {
    defaults: { retry: RETRY },
    run: async ({ n }, flow) => {
      const one = await flow.step('one', ({ key }) => ran(witness, flow.id, key, null, n, 1))
      await flow.sleep('nap', '200ms')
      return one
    },
  })
  const workflows = plans.map((plan) => DOORS[plan.door](plan, witness, { echo, kid }))
  return { tasks: [echo as never], workflows: [kid, ...workflows] as never }
}

interface Parts {
  readonly echo: Task<{ n: number }, { n: number }, number>
  readonly kid: Startable<{ n: number }, number>
}
type Door = (plan: Plan, witness: Witness, parts: Parts) => unknown

const DOORS: Readonly<Record<Plan['door'], Door>> = {
  workflow: ({ name, groups }, witness, { echo, kid }) =>
    workflow(name, numbered, {
      signals: { go: numbered },
      defaults: { retry: RETRY },
      run: async (_input, flow) => {
        const one = async (act: Act): Promise<number> => {
          const { value } = act
          if (act.kind === 'call') return flow.call(act.name, echo, { n: value })
          if (act.kind === 'child') return flow.child(act.name, kid, { n: value })
          if (act.kind === 'sleep') return (await flow.sleep(act.name, act.ms), value)
          if (act.kind === 'signal') return (await flow.signal('go')).n + value
          if (act.kind === 'map')
            return sum(
              await flow.map(
                act.name,
                echo,
                Array.from({ length: act.items }, () => ({ n: value })),
              ),
            )
          const limits = act.limit === null ? {} : { limits: [BUDGETS[act.limit]] }
          return flow.step(act.name, limits, ({ attempt, key }) => tried(witness, flow.id, key, act, attempt))
        }
        let total = 0
        for (const group of groups) total += sum(await Promise.all(group.map(one)))
        return total
      },
    }),
  machine: ({ name, groups }, witness, { kid }) => {
    const acts = groups.flat()
    const state = input<{ n: number }>()
    const nameAt = (i: number): string => acts[i]?.name ?? 'end'
    const run = Object.fromEntries(
      acts.map((act, i) => [
        act.name,
        // Each step does its own act, then waits for what the next one is.
        ({ n }: { n: number }, to: never) => {
          const { attempt, key, flow, ...moves } = to as AnyTo
          const total = n + (act.kind === 'step' ? tried(witness, flow.id, key, act, attempt) : act.value)
          const next = acts[i + 1]
          if (next?.kind === 'child') return moves.join([child(kid, { n: 1 })], next.name, { n: total })
          if (next?.kind === 'signal') return moves.wait(['go'], next.name, { n: total }, {})
          const delay = next?.kind === 'sleep' ? { delay: next.ms } : {}
          return next ? moves.next(next.name, { n: total }, delay) : moves.done(total)
        },
      ]),
    )
    const first = { begin: ({ n }: { n: number }, to: never) => (to as AnyTo).next(nameAt(0), { n }, {}) }
    const limits = Object.fromEntries(
      acts.flatMap((act) => (act.kind === 'step' && act.limit !== null ? [[act.name, [BUDGETS[act.limit]]]] : [])),
    )
    const isFirstWaited = acts[0]?.kind === 'child' || acts[0]?.kind === 'signal'
    if (isFirstWaited)
      first.begin = ({ n }, to) =>
        acts[0]?.kind === 'child'
          ? (to as AnyTo).join([child(kid, { n: 1 })], nameAt(0), { n })
          : (to as AnyTo).wait(['go'], nameAt(0), { n }, {})
    return machine(name, {
      states: Object.fromEntries(['begin', ...acts.map((act) => act.name)].map((step) => [step, state])),
      signals: { go: numbered },
      first: 'begin',
      result: input<number>(),
      retry: RETRY,
      limits,
      run: { ...first, ...run } as never,
    })
  },
  graph: ({ name, groups }, witness, { echo, kid }) => {
    let draft = graph(name, numbered) as unknown as AnyGraph
    let before: string[] = []
    for (const group of groups) {
      for (const act of group) {
        const at = before.length > 0 ? draft.after(...before) : draft
        const { value } = act
        if (act.kind === 'call') draft = at.call(act.name, echo, () => ({ n: value }))
        else if (act.kind === 'child') draft = at.child(act.name, kid, () => ({ n: value }))
        else if (act.kind === 'sleep') draft = at.sleep(act.name, act.ms)
        else if (act.kind === 'signal') draft = at.signal(act.name, numbered, {})
        else if (act.kind === 'map')
          draft = at
            .each(() => Array.from({ length: act.items }, () => value))
            .call(act.name, echo, ({ item }) => ({ n: item }))
        else {
          const options = { retry: RETRY, ...(act.limit !== null && { limits: [BUDGETS[act.limit]] }) }
          draft = at.step(act.name, options, (_seen, { attempt, key, flow }) =>
            tried(witness, flow.id, key, act, attempt),
          )
        }
      }
      before = group.map((act) => act.name)
    }
    const acts = groups.flat()
    return draft.output((seen) =>
      sum(
        acts.map((act) => {
          if (act.kind === 'map') return sum(seen[act.name] as number[])
          if (act.kind === 'signal') return act.value + (seen[act.name] as { n: number }).n
          return act.kind === 'sleep' ? act.value : (seen[act.name] as number)
        }),
      ),
    )
  },
}

interface AnyTo {
  readonly attempt: number
  readonly key: string
  readonly flow: { readonly id: string }
  next(step: string, state: object, arrival: object): never
  wait(on: string[], step: string, state: object, arrival: object): never
  join(children: unknown[], step: string, state: object): never
  done(result: number): never
}
interface AnyGraph {
  after(...names: string[]): AnyGraph
  each(of: () => unknown[]): AnyGraph
  call(name: string, of: unknown, made: (seen: { item: number }) => unknown): AnyGraph
  child(name: string, of: unknown, made: () => unknown): AnyGraph
  sleep(name: string, ms: number): AnyGraph
  signal(name: string, payload: unknown, options: object): AnyGraph
  step(
    name: string,
    options: object,
    run: (seen: unknown, context: Pick<AnyTo, 'attempt' | 'key' | 'flow'>) => number,
  ): AnyGraph
  output(of: (seen: Record<string, unknown>) => unknown): unknown
}

function tried(
  witness: Witness,
  flow: string,
  key: string,
  act: Extract<Act, { kind: 'step' }>,
  attempt: number,
): number {
  const value = ran(witness, flow, key, act.limit, act.value, 1 + act.failures)
  if (attempt <= act.failures) throw new Error('as drawn')
  return value
}

function ran(
  { nowUs, starts }: Witness,
  flow: string,
  key: string,
  budget: Budget | null,
  value: number,
  wanted: number,
): number {
  starts.push({ flow, key, limit: budget, wanted, atUs: nowUs() })
  return value
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((a, b) => a + b, 0)
}
