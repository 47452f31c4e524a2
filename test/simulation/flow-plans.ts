// Flows drawn at random: what they do as a plan, the code of each door that does it, and the result that it must have.
import type { Random } from '../../src/base/random.ts'
import { input, limit, task, type Task } from '../../src/exports/index.ts'
import type { Limit, LimitUse } from '../../src/policy/limits/define.ts'
import { again, child, graph, machine, type Startable, workflow } from '../../src/exports/flows.ts'

/** One thing that a flow does. Each adds its number to the result. */
export type Act = { readonly name: string; readonly value: number } & (
  | { readonly kind: 'step'; readonly limit: Budget | null; readonly failures: number }
  | { readonly kind: 'call' }
  | { readonly kind: 'map'; readonly items: number }
  | { readonly kind: 'sleep'; readonly ms: number }
  | { readonly kind: 'signal' }
  /** A signal that never comes, within a time. */
  | { readonly kind: 'late'; readonly ms: number }
  | { readonly kind: 'child' }
)
type Budget = 'rate' | 'window' | 'slots'

/** A flow: what it does, group by group; what is in one group it does side by side. */
export interface Plan {
  readonly door: 'workflow' | 'machine' | 'graph'
  readonly name: string
  readonly groups: readonly (readonly Act[])[]
  /** One flow of the plan runs at a time, from its first step to its end. */
  readonly isHeld: boolean
  /** The body begins once more with nothing remembered. */
  readonly isAgain: boolean
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
/** The permit of plans that are held. */
export const HELD: Limit = limit('sim-held', { concurrency: 1 })

/** Draws a plan. */
export function drawPlan(random: Random, at: number): Plan {
  const below = (n: number): number => Math.floor(random.next() * n)
  const door = (['workflow', 'machine', 'graph'] as const)[below(3)] ?? 'workflow'
  let acts = 0
  let signals = 0
  const act = (isAlone: boolean): Act => {
    const own = { name: `a${acts++}`, value: 1 + below(9) }
    const roll = random.next()
    if (roll < 0.2) return { ...own, kind: 'step', limit: null, failures: below(2) }
    if (roll < 0.5) {
      const budget = (['rate', 'window', 'slots'] as const)[below(3)] ?? 'rate'
      return { ...own, kind: 'step', limit: budget, failures: below(2) }
    }
    // A machine does one thing at a time, and calls no task.
    if (roll < 0.6) return door === 'machine' ? { ...own, kind: 'child' } : { ...own, kind: 'call' }
    if (roll < 0.68) return door === 'machine' ? { ...own, kind: 'child' } : { ...own, kind: 'map', items: below(4) }
    if (roll < 0.76) return { ...own, kind: 'sleep', ms: 1 + below(3000) }
    if (roll < 0.8 && isAlone) return { ...own, kind: 'late', ms: 1 + below(3000) }
    // Signals side by side would be of one name. A machine is handed all that have come at once.
    if (roll < 0.95 && isAlone && (door !== 'machine' || signals === 0)) {
      signals++
      return { ...own, kind: 'signal' }
    }
    return { ...own, kind: 'child' }
  }
  const groups = Array.from({ length: 1 + below(4) }, () => {
    const width = door === 'machine' || random.next() < 0.5 ? 1 : 2 + below(3)
    return Array.from({ length: width }, () => act(width === 1))
  })
  const isAgain = door === 'workflow' && signals === 0 && random.next() < 0.5
  return { door, name: `sim.${door}${at}`, groups, isHeld: random.next() < 0.3, isAgain }
}

/** The result that every flow of a plan must have. */
export function resultOf(plan: Plan): number {
  // Each signal of a flow carries its number, and is handed over once.
  const carried = signalsOf(plan).reduce((sum, _, n) => sum + n, 0)
  return (
    carried + plan.groups.flat().reduce((sum, act) => sum + (act.kind === 'map' ? act.value * act.items : act.value), 0)
  )
}

/** The shortest time that a flow of a plan can take, in ms. */
export function leastMsOf({ groups, isAgain }: Plan): number {
  const longest = groups.map((group) => Math.max(...group.map((act) => ('ms' in act ? act.ms : 0))))
  return (isAgain ? 2 : 1) * sum(longest)
}

/** The names of the signals that a flow of a plan takes. In a graph each is a step of its own; a body takes two at a time. */
export function signalsOf({ door, groups }: Plan): string[] {
  const taken = { workflow: ['go', 'go'], machine: ['go'], graph: null }[door]
  return groups.flat().flatMap(({ kind, name }) => (kind === 'signal' ? (taken ?? [name]) : []))
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
  workflow: ({ name, groups, isAgain, isHeld }, witness, { echo, kid }) =>
    workflow(name, numbered, {
      signals: { go: numbered, never: numbered },
      defaults: { retry: RETRY },
      hold: heldBy(name, isHeld),
      run: async ({ n }, flow) => {
        const one = async (act: Act): Promise<number> => {
          const { value } = act
          if (act.kind === 'call') return flow.call(act.name, echo, { n: value })
          if (act.kind === 'child') return flow.child(act.name, kid, { n: value })
          if (act.kind === 'sleep') return (await flow.sleep(act.name, act.ms), value)
          if (act.kind === 'signal') return (await flow.signal('go')).n + (await flow.signal('go')).n + value
          if (act.kind === 'late') return (await flow.signal('never', { within: act.ms })) === null ? value : Number.NaN
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
        if (isAgain && n === 0) return again({ n: 1 })
        return total
      },
    }),
  machine: ({ name, groups, isHeld }, witness, { kid }) => {
    const acts = groups.flat()
    const state = input<{ n: number }>()
    const run = Object.fromEntries(
      acts.map((act, i) => [
        act.name,
        // Each step does its own act, then waits for what the next one is.
        ({ n }: { n: number }, to: never) => {
          const { attempt, key, flow, ...moves } = to as AnyTo
          const total = n + (act.kind === 'step' ? tried(witness, flow.id, key, act, attempt) : act.value)
          const next = acts[i + 1]
          return next ? towards(next, moves, total, kid) : moves.done(total)
        },
      ]),
    )
    const begin = ({ n }: { n: number }, to: never) => towards(acts[0] as Act, to, n, kid)
    const limits = Object.fromEntries(
      acts.flatMap((act) => (act.kind === 'step' && act.limit !== null ? [[act.name, [BUDGETS[act.limit]]]] : [])),
    )
    return machine(name, {
      states: Object.fromEntries(['begin', ...acts.map((act) => act.name)].map((step) => [step, state])),
      signals: { go: numbered, never: numbered },
      first: 'begin',
      hold: heldBy(name, isHeld),
      result: input<number>(),
      retry: RETRY,
      limits,
      run: { begin, ...run } as never,
    })
  },
  graph: ({ name, groups, isHeld }, witness, { echo, kid }) => {
    let draft = graph(name, numbered, { hold: heldBy(name, isHeld) }) as unknown as AnyGraph
    let before: string[] = []
    for (const group of groups) {
      for (const act of group) {
        const at = before.length > 0 ? draft.after(...before) : draft
        const { value } = act
        if (act.kind === 'call') draft = at.call(act.name, echo, () => ({ n: value }))
        else if (act.kind === 'child') draft = at.child(act.name, kid, () => ({ n: value }))
        else if (act.kind === 'sleep') draft = at.sleep(act.name, act.ms)
        else if (act.kind === 'signal') draft = at.signal(act.name, numbered, {})
        else if (act.kind === 'late') draft = at.signal(act.name, numbered, { within: act.ms })
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
          if (act.kind === 'late') return seen[act.name] === null ? act.value : Number.NaN
          return act.kind === 'sleep' ? act.value : (seen[act.name] as number)
        }),
      ),
    )
  },
}

/** The way of a machine to its next act. */
function towards(next: Act, to: Moves, n: number, kid: Parts['kid']): never {
  if (next.kind === 'child') return to.join([child(kid, { n: 1 })], next.name, { n })
  if (next.kind === 'signal') return to.wait(['go'], next.name, { n }, {})
  if (next.kind === 'late') return to.wait(['never'], next.name, { n }, { within: next.ms })
  return to.next(next.name, { n }, next.kind === 'sleep' ? { delay: next.ms } : {})
}

function heldBy(name: string, isHeld: boolean): LimitUse<unknown>[] {
  return isHeld ? [HELD.key(name)] : []
}

interface AnyTo extends Moves {
  readonly attempt: number
  readonly key: string
  readonly flow: { readonly id: string }
}
interface Moves {
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
