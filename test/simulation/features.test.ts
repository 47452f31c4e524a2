import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { Pool } from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Clock } from '../../src/base/clock.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { PostgresStore } from '../../src/store/postgres/postgres-store.ts'
import type { NewJob } from '../../src/jobs/job.ts'
import type { LimitPolicy, LimitDefinition } from '../../src/policy/limits/limit.ts'
import type { Rule } from '../../src/policy/rules/rule.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { service } from '../services.ts'
import { type MakeStore, simulateFeatures } from './features/fleet.ts'
import { planOf, type Rule as PlannedRule } from './features/plan.ts'
import { testDirectory } from './file.ts'
import { sized } from '../sized.ts'
import { dropSchema } from '../drop-schema.ts'

const ONLY = process.env['SLUICE_SEED']
const RETENTION = { completedUs: 1e15, cancelledUs: 1e15, discardedUs: 1e15 }
const postgres = await service('postgres', 'the simulation of what limits can do, on PostgreSQL')

/** Engines of one plan share a file; each plan has its own. */
function onSqlite(): { makeStore: MakeStore; end: () => Promise<void> } {
  const directory = testDirectory()
  const makeStore = (clock: Clock, ageingUs: number | null): Store =>
    new SqliteStore({
      path: join(directory, 'features.db'),
      clock,
      durability: 'process',
      retention: RETENTION,
      ageingUs,
    })
  return { makeStore, end: () => Promise.resolve(rmSync(directory, { recursive: true, force: true })) }
}

const isCalendar = ({ kind }: PlannedRule): boolean => kind === 'calendar'
const range = (from: number, count: number): number[] =>
  ONLY === undefined ? Array.from({ length: count }, (_, i) => from + i) : [Number(ONLY)]

/** A store that defines every limit as `change` says. */
function defining(store: Store, change: (policy: LimitPolicy) => LimitPolicy): Store {
  return new Proxy(store, {
    get(target, name): unknown {
      if (name === 'define')
        return (limits: readonly LimitDefinition[]) =>
          target.define(limits.map((each) => ({ ...each, policy: change(each.policy) })))
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

describe('drop, maxWait, reschedule, shares, fair keys, headroom, ageing, calendars, flows and queue limits keep their promises', () => {
  it.each(Array.from({ length: ONLY === undefined ? sized(2, 40) : 1 }, (_, n) => 1 + n * 25))(
    'on SQLite, 25 seeds from %i',
    async (from) => {
      const seen = { starts: 0, rejected: 0, crashes: 0, assured: 0, shadowed: 0, tickets: 0 }
      for (const seed of range(from, 25)) {
        const { makeStore, end } = onSqlite()
        const found = await simulateFeatures(seed, makeStore)
        await end()
        for (const name of Object.keys(seen) as (keyof typeof seen)[]) seen[name] += found[name]
      }
      expect(ONLY !== undefined || Object.values(seen).every((count) => count > 5)).toBe(true)
    },
  )

  // The windows of calendars are pure maths, and hours of virtual time are many round trips.
  const seeds = range(1, sized(6, 100)).filter(
    (seed) => !planOf(seed).limits.some(({ rules }) => rules.some(isCalendar)),
  )
  it.skipIf(postgres === null).each(seeds)('on PostgreSQL, seed %i', async (seed) => {
    const schema = `sluice_features_${process.pid}_${seed}`
    const pool = new Pool({ connectionString: postgres as string, max: 8 })
    pool.on('error', () => undefined)
    pool.setMaxListeners(0)
    onTestFinished(async () => {
      await dropSchema(pool, schema)
      await pool.end()
    })
    const makeStore: MakeStore = (clock, ageingUs) =>
      new PostgresStore({ connection: pool, schema, clock, retention: RETENTION, notify: false, ageingUs })
    expect((await simulateFeatures(seed, makeStore)).jobs).toBeGreaterThan(0)
  })
})

/**
 * The first promise broken in 200 seeds of a store with a fault. @param first the first seed: the one that notices it
 * as things are
 */
async function firstBroken(sabotage: (store: Store) => Store, first = 1): Promise<string | null> {
  for (const seed of range(first, 200)) {
    const { makeStore, end } = onSqlite()
    try {
      await simulateFeatures(seed, (clock, ageingUs) => sabotage(makeStore(clock, ageingUs)))
    } catch (error) {
      return String(error)
    } finally {
      await end()
    }
  }
  return null
}

/** A store in which every lane has ten starts in a row. */
function greedy(store: Store): Store {
  return new Proxy(store, {
    get(target, name): unknown {
      if (name === 'enqueue')
        return (jobs: readonly NewJob[]) => target.enqueue(jobs.map((job) => ({ ...job, share: 10 })))
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

/** A store whose budgets of plain code have another verb in place of one. */
function plain(store: Store, verb: keyof Store['budgets'], other: (budgets: Store['budgets']) => unknown): Store {
  const budgets = new Proxy(store.budgets, {
    get(target, name): unknown {
      if (name === verb) return other(target)
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
  return new Proxy(store, {
    get(target, name): unknown {
      const value: unknown = name === 'budgets' ? budgets : Reflect.get(target, name)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

describe('this simulator notices', () => {
  it('permits of plain code that do not return', async () => {
    const kept = (store: Store): Store => plain(store, 'release', () => () => Promise.resolve())
    expect(await firstBroken(kept)).toMatch(/seed \d+/)
  })

  it('calls of plain code that take one unit each', async () => {
    const light = (store: Store): Store =>
      plain(
        store,
        'acquire',
        (budgets): Store['budgets']['acquire'] =>
          (requests) =>
            budgets.acquire(
              requests.map((each) => ({ ...each, uses: each.uses.map((use) => ({ ...use, weight: 1 })) })),
            ),
      )
    expect(await firstBroken(light)).toMatch(/seed \d+/)
  })

  it('turns that are ten starts long', async () => {
    expect(await firstBroken(greedy, 8)).toMatch(/starts \d+ jobs, and job \d+ .* none/)
  })

  const shared = (policy: LimitPolicy, by: number): LimitPolicy => {
    const rule = policy.of?.rule
    if (!policy.of || !rule) return policy
    return { ...policy, of: { ...policy.of, rule: { ...rule, periodUs: Math.round(rule.periodUs / by) } } }
  }
  const widened = (rule: Rule): Rule => ('max' in rule ? { ...rule, max: rule.max + 1 } : rule)
  it.each<[string, (policy: LimitPolicy) => LimitPolicy, number?]>([
    ['a window that is one wider', (policy) => ({ ...policy, rule: policy.rule && widened(policy.rule) })],
    [
      'a permit too many',
      (policy) => ({ ...policy, concurrency: policy.concurrency === null ? null : policy.concurrency + 1 }),
    ],
    [
      'a permit too few',
      (policy) => ({
        ...policy,
        concurrency: policy.concurrency === null ? null : Math.max(1, policy.concurrency - 1),
      }),
      16,
    ],
    ['headroom that nobody keeps', ({ headroom: _, ...policy }) => policy],
    ['a maxWait that is not kept', (policy) => ({ ...policy, maxWaitUs: null })],
    ['a limit that drops what should wait', (policy) => ({ ...policy, onLimit: 'drop' })],
    ['a guaranteed share that nobody keeps', ({ of: _, ...policy }) => policy, 9],
    ['a guaranteed share that is half as much', (policy) => shared(policy, 1 / 2), 41],
    ['a guaranteed share that is twice as much', (policy) => shared(policy, 2), 38],
    ['a shadow that delays', ({ mode: _, ...policy }) => policy, 21],
    ['a limit that is a shadow', (policy) => ({ ...policy, mode: 'shadow' })],
    [
      'a shadow that tells of a wider window',
      (policy) => (policy.mode ? { ...policy, rule: policy.rule && widened(policy.rule) } : policy),
      37,
    ],
  ])('%s', async (_, change, first) => {
    expect(await firstBroken((store) => defining(store, change), first)).toMatch(/seed \d+/)
  })
})
