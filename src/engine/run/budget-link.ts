import type { Clock } from '../../base/clock.ts'
import type { Trouble } from '../../base/trouble.ts'
import type {
  BucketName,
  Denied,
  HeldPermit,
  LimitBackend,
  UnitAnswer,
  UnitRequest,
} from '../../limiter/contract/limiter.ts'
import { Access, type BackendObserver } from '../../limiter/client/access.ts'
import { Lead } from '../../limiter/client/lead.ts'
import type { AskTerms, PaidLine } from '../../limiter/client/paid-book.ts'
import { Permits } from '../../limiter/client/permits.ts'
import { Returns } from '../../limiter/client/returns.ts'
import { Shares } from '../../limiter/client/shares.ts'
import { backendLoader } from '../../limiter/open.ts'
import { slackOf } from '../../policy/limits/backend.ts'
import type { LimitDefinition, LimitPolicy } from '../../policy/limits/limit.ts'
import type { BudgetSettings } from '../define/budgets.ts'
import type { LimitRegistry } from '../define/limit-registry.ts'
import type { Events } from '../events/events.ts'

/** The parts of a link. */
export interface BudgetLinkOptions {
  readonly clock: Clock
  readonly events: Events
  readonly trouble: Trouble
  readonly limits: LimitRegistry
  readonly leaseUs: number
  /** Names the permits of this process, unlike those of any other. */
  readonly prefix: string
}

/** The most requests in one call of a backend. */
const MOST_REQUESTS = 100
/** A backend that is down is asked again after this time. */
const PROBE_MS = 100

/** One backend of budgets, as this process reaches it. */
export class BudgetLink {
  readonly name: string
  readonly permits: Permits
  readonly failMode: BudgetSettings['failMode']
  readonly lead: Lead = new Lead()
  /** The question that is on its way. */
  question: Promise<void> | null = null
  /** Since when it is, on the steady clock. */
  askingSinceUs: number | null = null
  /** Since when the backend cannot be reached, on the steady clock; null: it can be. */
  downSinceUs: number | null = null
  /** The most requests in one call: a server that is too slow for many may answer fewer in time. */
  atOnce: number = MOST_REQUESTS
  readonly #shares = new Shares()
  #permits = 0
  readonly #access: Access
  readonly #options: BudgetLinkOptions
  /** The number of limits that the backend was told. */
  #defined = 0
  readonly #returns: Returns
  #closed = false

  /**
   * @param changed called when the backend can no longer be reached, and when it can be again
   * @param up called when the backend answers again, and with buckets whose permits have returned since then
   * @param refunded called with buckets whose units have returned late
   */
  constructor(
    name: string,
    { backend, namespace, failMode }: BudgetSettings,
    options: BudgetLinkOptions,
    changed: () => void,
    up: (returned: readonly BucketName[]) => void,
    refunded: (buckets: readonly BucketName[]) => void,
  ) {
    const { clock, events, leaseUs, trouble } = options
    this.name = name
    this.failMode = failMode
    this.#options = options
    const { isLocal, load } = backendLoader(backend, namespace, clock)
    const what = `the backend ${name} of budgets`
    const observer: BackendObserver = {
      down: (error) => {
        this.downSinceUs = clock.monotonicUs()
        trouble.failed(what, error)
        events.emit('rate_limit.backend_down', { backend: name, error })
        changed()
        this.#probe()
      },
      up: (downUs, granted) => {
        this.downSinceUs = null
        trouble.over(what)
        events.emit('rate_limit.backend_up', { backend: name, downMs: downUs / 1000, granted })
        changed()
        up([])
        void this.#returns.recover()
      },
      reset: () => events.emit('rate_limit.backend_reset', { backend: name }),
      lost: (permits) => this.#returns.keep(permits),
      refunded,
    }
    const prefix = `${options.prefix}${name}.`
    this.#access = new Access(load, isLocal, { clock, limits: this, failMode, observer, prefix })
    const release = (permits: readonly HeldPermit[]): Promise<void> => this.call((each) => each.release(permits), false)
    const releaseOnce: typeof release = (permits) => this.#access.once((each) => each.release(permits))
    this.#returns = new Returns({ clock, leaseUs, release, releaseOnce, returned: up })
    this.permits = new Permits(clock, leaseUs, (held) => this.call((each) => each.extend(held, leaseUs), false))
  }

  /** The limits whose budgets the backend keeps, as far as this process knows. */
  readonly definitions = (): LimitDefinition[] =>
    this.#options.limits.definitions().filter(({ policy }) => policy.backend === this.name)

  /**
   * Calls the backend. @throws {SluiceError} `limiter.backend_down`, and the codes of the verb
   * @param proves as that of `Access.call`
   */
  call<T>(work: (backend: LimitBackend) => Promise<T>, proves?: boolean): Promise<T> {
    this.#define()
    return this.#access.call(work, undefined, proves)
  }

  /** Corrects a charge. @throws {SluiceError} `limiter.backend_down`, and the codes of the verb */
  charge(bucket: BucketName, units: number, atUs: number): Promise<void> {
    this.#define()
    return this.#access.charge(bucket, units, atUs)
  }

  /** Gives back the units of a start that no job uses. */
  giveBack({ uses }: PaidLine, atUs: number): Promise<void> {
    this.#define()
    return this.#access.giveBack(uses, atUs)
  }

  /** The requests for some starts of a line. */
  requests(line: PaidLine, starts: number, place: number): UnitRequest[] {
    const { clock, leaseUs, prefix: caller } = this.#options
    const { uses, priority } = line
    const nowUs = clock.monotonicUs()
    const lead = this.lead.of(this.#policies(line), slackOf, nowUs)
    const shared = this.#shares.withinUs(Array<PaidLine>(starts).fill(line), nowUs, lead.withinUs)
    return shared.map((withinUs) => {
      const permit = `${caller}${this.name}.${++this.#permits}`
      return { uses, priority, line: place, permit, leaseUs, caller, aheadUs: lead.aheadUs, withinUs }
    })
  }

  /** Learns from the answers to a line. It tells when the line may ask for more, and for how much. */
  answered(line: PaidLine, paid: number, denied: Denied | null, nowUs: number): AskTerms {
    for (let n = 0; n < paid; n++) this.#shares.took(line.uses, nowUs)
    const lead = this.lead.of(this.#policies(line), slackOf, nowUs)
    if (!denied) return { withinUs: lead.withinUs, units: 0 }
    const policy = this.#options.limits.policy(denied.by.limit)
    const units = this.#shares.refused(denied, policy, paid, nowUs)
    const opensUs = nowUs + (denied.retryAfterUs ?? 0)
    return { withinUs: this.#shares.leadUs(line.uses, opensUs, nowUs, lead.withinUs), units }
  }

  #policies({ uses }: PaidLine): LimitPolicy[] {
    return uses.flatMap(({ limit }) => this.#options.limits.policy(limit) ?? [])
  }

  /** Asks for units. It does not throw when the backend cannot be reached. */
  async acquire(requests: readonly UnitRequest[]): Promise<readonly UnitAnswer[]> {
    this.#define()
    const wasDown = this.#access.isDown
    const answers = await this.#access.acquire(requests)
    if (!this.#access.isDown) this.atOnce = Math.min(this.atOnce + 1, MOST_REQUESTS)
    else if (!wasDown) this.atOnce = Math.ceil(requests.length / 2)
    return answers
  }

  /** Returns a permit, or does so once the backend can be reached again. False: it has not returned yet. */
  async release(permit: HeldPermit): Promise<boolean> {
    this.permits.drop(permit)
    return this.#returns.give(permit).catch(() => false)
  }

  /** Returns all permits, and closes the connection. */
  async close(): Promise<void> {
    this.#closed = true
    this.#returns.end()
    // Runs that are left have heard that the engine stops.
    const held = [...this.permits.end(null), ...this.#returns.left]
    if (held.length > 0) await this.#access.call((backend) => backend.release(held)).catch(() => undefined)
    await this.#access.close().catch(() => undefined)
  }

  /** Makes the next call define the limits that were added since the last one. */
  #define(): void {
    const { length } = this.definitions()
    if (length !== this.#defined) this.#access.again()
    this.#defined = length
  }

  /** Asks the backend whether it answers. If it does not, the events say so. */
  async look(): Promise<void> {
    await this.#ready().catch(() => undefined)
  }

  #ready(): Promise<unknown> {
    return this.#access.call<unknown>((backend) =>
      backend.ready ? backend.ready() : backend.define(this.definitions()),
    )
  }

  /** Asks the backend from time to time whether it answers again. */
  #probe(): void {
    if (this.#closed) return
    const again = this.#options.clock.setTimer(() => {
      if (this.#closed || !this.#access.isDown) return
      this.#ready().catch(() => this.#probe())
    }, PROBE_MS)
    again.unref?.()
  }
}
