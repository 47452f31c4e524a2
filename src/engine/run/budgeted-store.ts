/** A store whose limits with a backend are also changed, corrected and shown there. */
import type { BucketReport as ReportElsewhere } from '../../limiter/contract/limiter.ts'
import { guardInForce } from '../../policy/limits/limit.ts'
import type { BucketReport } from '../../store/contract/limits.ts'
import type { Store } from '../../store/contract/store.ts'
import type { EngineSettings } from '../define/options.ts'
import type { Budgets, BudgetsOptions } from './budgets.ts'

/** The buckets that one call of `inspect` asks the backend for at once. */
const INSPECTED_AT_ONCE = 50

type Changed = Pick<Store, 'settle' | 'penalize' | 'calibrate' | 'charge' | 'override' | 'inspect' | 'inspectKeys'>

/** The store for the engine, and its budgets; null: none has a backend, and their code is not loaded. */
export async function withBackends(
  store: Store,
  { budgets: settings, ...rest }: EngineSettings,
  { newId, ...parts }: Pick<BudgetsOptions, 'events' | 'wakeup' | 'limits'> & { readonly newId: () => string },
): Promise<{ readonly store: Store; readonly budgets: Budgets | null }> {
  if (settings.size === 0) return { store, budgets: null }
  const { Budgets: Opened } = await import('./budgets.ts')
  const budgets = new Opened({ ...rest, ...parts, settings, store, prefix: `${newId()}.` })
  return { store: budgeted(store, budgets), budgets }
}

/**
 * The store for the engine. What it knows of such a limit only keeps jobs waiting, so the backend comes first: if it
 * cannot be reached, nothing is changed.
 */
function budgeted(store: Store, budgets: Budgets): Store {
  const changed: Changed = {
    settle: async (worker, settlement, again) => {
      const settled = await store.settle(worker, settlement, again)
      if (settlement.kind === 'push-back' && settlement.limit !== null) {
        const { limit, key, closedForUs } = settlement
        budgets.correct(limit, (backend) => backend.penalize({ limit, key }, closedForUs))
      }
      return settled
    },
    penalize: async (limit, key, untilUs, worker) => {
      const forUs = Math.max(0, untilUs - store.nowUs())
      await budgets.call(limit, (backend) => backend.penalize({ limit, key }, forUs))
      return store.penalize(limit, key, untilUs, worker)
    },
    calibrate: async (limit, key, report, worker) => {
      const { remaining, resetUs, direction, reset } = report
      const left = { remaining, resetInUs: resetUs - store.nowUs(), direction, reset }
      const news = await budgets.call(limit, (backend) => backend.calibrate({ limit, key }, left))
      return news ?? store.calibrate(limit, key, report, worker)
    },
    charge: async (limit, key, units, chargedAtUs, worker) => {
      const done = budgets.charge(limit, key, units, chargedAtUs)
      if (!done) return store.charge(limit, key, units, chargedAtUs, worker)
      await done
      if (units < 0) await store.reopen([{ limit, key }])
    },
    override: async (request) => {
      const { untilUs, ...change } = request
      const forUs = untilUs === null ? null : untilUs - store.nowUs()
      const changes = await budgets.call(request.limit, (backend) => backend.change({ ...change, forUs }))
      return (await store.override(request)) || changes === true
    },
    inspect: async (limit, key) => asKept(budgets, limit, await store.inspect(limit, key)),
    inspectKeys: async (limit, keys) => asKept(budgets, limit, await store.inspectKeys(limit, keys)),
  }
  return new Proxy(store, {
    get(target, name) {
      const own = Object.hasOwn(changed, name) ? changed[name as keyof Changed] : undefined
      const value: unknown = own ?? Reflect.get(target, name, target)
      return typeof value === 'function' && own === undefined ? (value.bind(target) as unknown) : value
    },
  })
}

/** Reports of buckets with the figures of the backend that keeps them. */
async function asKept(budgets: Budgets, limit: string, reports: BucketReport[]): Promise<BucketReport[]> {
  if (!budgets.keeps(limit)) return reports
  const shown: BucketReport[] = []
  for (let from = 0; from < reports.length; from += INSPECTED_AT_ONCE)
    shown.push(
      ...(await Promise.all(
        reports.slice(from, from + INSPECTED_AT_ONCE).map(async (report) => {
          const found = await budgets.call(limit, (backend) => backend.inspect({ limit, key: report.key }), false)
          return found ? { ...report, ...shownBy(found), backend: budgets.nameOf(limit) } : report
        }),
      )),
    )
  return shown
}

function shownBy({ available, debt, capacity, active, policy }: ReportElsewhere): Partial<BucketReport> {
  const guard = guardInForce(policy)
  return {
    available,
    debt,
    capacity,
    active,
    ...(policy.headroom && { headroom: policy.headroom }),
    ...(guard && { guard }),
  }
}
