/** The budgets that backends keep, for the jobs of one process: what it has paid there, wants, and was refused. */
import type { Clock, Timer } from '../../base/clock.ts'
import { SluiceError } from '../../base/errors.ts'
import { persist } from '../../base/persist.ts'
import type { Trouble } from '../../base/trouble.ts'
import type { PaidStart } from '../../jobs/hold.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import type { BucketName, Denied, LimitBackend, UnitAnswer } from '../../limiter/contract/limiter.ts'
import { PaidBook, type PaidLine, type Ticket } from '../../limiter/client/paid-book.ts'
import { slackOf } from '../../policy/limits/backend.ts'
import { latenessOf } from '../../policy/limits/lateness.ts'
import type { Store } from '../../store/contract/store.ts'
import type { BudgetSettings } from '../define/budgets.ts'
import type { LimitRegistry } from '../define/limit-registry.ts'
import type { Events } from '../events/events.ts'
import type { Wakeup } from '../events/wakeup.ts'
import { BackendReports } from './backend-reports.ts'
import { BudgetLink } from './budget-link.ts'
import { type Lender, Loan } from './loan.ts'

/** The parts of the budgets. */
export interface BudgetsOptions {
  readonly settings: ReadonlyMap<string, BudgetSettings>
  readonly clock: Clock
  readonly events: Events
  readonly trouble: Trouble
  readonly wakeup: Wakeup
  readonly limits: LimitRegistry
  readonly store: Store
  readonly leaseUs: number
  /** Names the permits of this process, unlike those of any other. */
  readonly prefix: string
}

/** A backend of budgets, as this process knows it. */
export interface BackendState {
  readonly name: string
  readonly isUp: boolean
}

/** A question without an answer holds slots for this time; then other jobs may have them. */
const PATIENCE_US = 20_000
/** While a backend is down, its buckets are closed for this time, or for an eighth of the time that it has been down. */
const CLOSED_US = 250_000
const LONGEST_CLOSED_US = 5_000_000
/** A limit that the backend does not know is asked for again after this time. */
const UNKNOWN_US = 1_000_000
/** A correction that only delays starts is tried again for this time. */
const REPEATED_FOR_MS = 120_000

/** Asks backends for the units of starts, and keeps what they granted until a decision takes it. */
export class Budgets {
  readonly reports: BackendReports
  readonly #options: BudgetsOptions
  readonly #links = new Map<string, BudgetLink>()
  readonly #book = new PaidBook()
  /** The payments of the runs of this process. */
  readonly #runs = new Map<string, readonly [GrantedJob, readonly Ticket[]]>()
  #timer: Timer | null = null
  /** Claims that are under way. */
  #lent = 0
  #stopped = false

  constructor(options: BudgetsOptions) {
    this.#options = options
    const up = (returned: readonly BucketName[]): void => {
      this.#returned(returned)
      this.#news()
    }
    this.reports = new BackendReports(options, () => this.#links.values())
    const changed = (): void => void this.reports.changed()
    const refunded = (buckets: readonly BucketName[]): void => {
      this.#book.returned(buckets, false)
      this.#reopen(buckets)
    }
    for (const [name, settings] of options.settings)
      this.#links.set(name, new BudgetLink(name, settings, options, changed, up, refunded))
  }

  /** Lends what is paid to one claim. @param remote the runs of the claim may end at another process */
  lend(remote = false): Loan {
    const { clock, store, wakeup } = this.#options
    this.#lent++
    const lender: Lender = {
      answering: (nowUs) => this.#answering(nowUs),
      down: (nowUs) => this.#down(nowUs),
      begun: (job, tickets) => this.#begun(job, tickets, remote),
      lost: (tickets) => this.#release(tickets),
      ended: (left) => {
        this.#ask()
        this.#lent--
        if (remote && left) wakeup.notify('paid')
      },
    }
    return new Loan({ book: this.#book, clock, store, lender })
  }

  /** When the handler of a claimed job may begin, on the steady clock; null: at any time. */
  startOf(run: RunName): PaidStart | null {
    const [, tickets = []] = this.#runs.get(nameOf(run)) ?? []
    if (tickets.length === 0) return null
    const fromUs = Math.max(...tickets.map((ticket) => ticket.fromUs))
    return { fromUs, lateUs: Math.min(...tickets.map((ticket) => ticket.lateUs)) }
  }

  /** Resolves when all of these jobs may begin. */
  async due(runs: readonly RunName[]): Promise<void> {
    const { clock } = this.#options
    const fromUs = Math.max(0, ...runs.map((run) => this.startOf(run)?.fromUs ?? 0))
    const waitUs = fromUs - clock.monotonicUs()
    if (waitUs > 0) await new Promise<void>((resolve) => clock.setTimer(resolve, waitUs / 1000))
  }

  /** Learns how long these payments took to become starts. */
  #took(tickets: readonly Ticket[]): void {
    const nowUs = this.#options.clock.monotonicUs()
    for (const { line, atUs, askedUs } of tickets)
      if (atUs !== 0) this.#links.get(line.backend)?.lead.took(nowUs - askedUs, nowUs)
  }

  /** A run has ended, and that is durable: its permits return. */
  ended(run: RunName): void {
    this.#release(this.#take(run))
  }

  /** Gives back what a job has paid that never began. */
  giveBack(run: RunName): void {
    void this.#return(this.#take(run))
  }

  /** Whether a backend keeps the budgets of a limit. */
  keeps(limit: string): boolean {
    return this.#linkOf(limit) !== null
  }

  /** The backend of a limit; null: the store keeps its budgets. @throws {SluiceError} `limiter.backend_down` */
  call<T>(limit: string, work: (backend: LimitBackend) => Promise<T>, proves?: boolean): Promise<T> | null {
    const link = this.#linkOf(limit)
    if (!link) return null
    return link.call(work, proves)
  }

  /** The same without an answer, and tried again for a while: a correction that only delays starts. */
  correct(limit: string, work: (backend: LimitBackend) => Promise<unknown>): void {
    const { clock, trouble } = this.#options
    if (!this.keeps(limit)) return
    persist(clock, REPEATED_FOR_MS, async () => this.call(limit, work)).catch((error: unknown) =>
      trouble.report('error', error, { limit }, 'a refusal could not be told to the backend of its budget'),
    )
  }

  /** The name of the backend of a limit. */
  nameOf(limit: string): string {
    return this.#linkOf(limit)?.name ?? ''
  }

  /** Corrects what a run that started then has paid for a bucket; null: the store keeps its budgets. */
  charge(limit: string, key: string, units: number, startedUs: number): Promise<void> | null {
    return this.#linkOf(limit)?.charge({ limit, key }, units, this.#paidAtUs(limit, key, startedUs)) ?? null
  }

  /** When such a run has paid, by the backend's clock; 0: that is not known any more. */
  #paidAtUs(limit: string, key: string, startedUs: number): number {
    for (const [{ startedUs: atUs }, tickets] of this.#runs.values())
      if (atUs === startedUs)
        for (const { line, atUs: paidUs } of tickets)
          if (line.uses.some((use) => use.limit === limit && use.key === key)) return paidUs
    return 0
  }

  /** The backends, and whether each answers. */
  get backends(): readonly BackendState[] {
    return [...this.#links.values()].map(({ name, downSinceUs }) => ({ name, isUp: downSinceUs === null }))
  }

  /** Gives back the starts that no claim has taken, and closes the connections. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#timer?.cancel()
    const left = this.#book.take(-Infinity)
    await this.#return(left)
    for (const link of this.#links.values()) await link.close()
    await this.reports.stop()
  }

  #take(run: RunName): readonly Ticket[] {
    const [, tickets] = this.#runs.get(nameOf(run)) ?? [null, []]
    this.#runs.delete(nameOf(run))
    return tickets
  }

  #linkOf(limit: string): BudgetLink | null {
    const backend = this.#options.limits.policy(limit)?.backend
    return backend === undefined ? null : (this.#links.get(backend) ?? null)
  }

  /** The backends that answer soon. */
  #answering(nowUs: number): Set<string> {
    const isPrompt = ({ askingSinceUs }: BudgetLink): boolean =>
      askingSinceUs === null || nowUs - askingSinceUs < PATIENCE_US
    return new Set([...this.#links.values()].filter(isPrompt).map(({ name }) => name))
  }

  /** The limits whose backend is down, and until when their buckets are closed. */
  #down(nowUs: number): Map<string, number> {
    const down = new Map<string, number>()
    for (const { downSinceUs, failMode, definitions } of this.#links.values()) {
      if (downSinceUs === null) continue
      const closedUs = Math.min(LONGEST_CLOSED_US, Math.max(CLOSED_US, (nowUs - downSinceUs) / 8))
      for (const { name: limit } of definitions())
        if (failMode(limit) === 'closed') down.set(limit, nowUs + Math.round(closedUs))
    }
    return down
  }

  /** Asks every backend for what decisions want, one question at a time. */
  #ask(): void {
    if (this.#stopped) return
    const lapsed = this.#book.lapsed(this.#options.clock.monotonicUs())
    // Without a claim under way there was no start that could have had them.
    if (this.#lent > 0) this.#took(lapsed)
    void this.#return(lapsed)
    for (const link of this.#links.values()) this.#askOne(link)
    this.#setTimer()
  }

  #askOne(link: BudgetLink): void {
    const nowUs = this.#options.clock.monotonicUs()
    if (link.question) return
    const asking = this.#book.asking(link.name, nowUs)
    if (asking.length === 0) return
    link.askingSinceUs = nowUs
    link.question = this.#question(link, asking).finally(() => {
      link.question = null
      link.askingSinceUs = null
      this.#news()
      this.#ask()
    })
  }

  async #question(link: BudgetLink, asking: readonly (readonly [PaidLine, number])[]): Promise<void> {
    const { clock, trouble } = this.#options
    // A backend that is slow to answer must not hold slots that others could use.
    const late = clock.setTimer(() => this.#news(), PATIENCE_US / 1000)
    try {
      const requests = asking.flatMap(([line, starts], i) => link.requests(line, starts, i))
      const answers: TimedAnswer[] = []
      while (answers.length < requests.length) {
        const some = requests.slice(answers.length, answers.length + link.atOnce)
        const askedUs = clock.monotonicUs()
        const answered = await link.acquire(some)
        const answeredUs = clock.monotonicUs()
        answers.push(...answered.map((answer) => ({ answer, askedUs, answeredUs })))
      }
      for (const [line, starts] of asking) this.#answered(line, answers.splice(0, starts))
    } catch (error) {
      trouble.failed(`a question to the backend ${link.name} of budgets`, error)
      for (const [line] of asking) this.#book.answered(line, [], refusalOf(line, UNKNOWN_US), clock.monotonicUs())
    } finally {
      late.cancel()
    }
  }

  #answered(line: PaidLine, answered: readonly TimedAnswer[]): void {
    const { clock, limits, trouble } = this.#options
    const link = this.#links.get(line.backend)
    const policies = line.uses.flatMap(({ limit }) => limits.policy(limit) ?? [])
    const slackUs = Math.min(...policies.map(slackOf))
    const paid = answered.flatMap(({ answer, askedUs, answeredUs }) => {
      if (answer.kind !== 'granted') return []
      const { permit, atUs, startInUs = 0 } = answer
      const fromUs = answeredUs + startInUs
      const latenesses = policies.map((policy) => latenessOf(policy, atUs))
      // A start that went on without its budget has no instant to keep to.
      const lateUs = atUs === 0 ? Infinity : fromUs + Math.min(...latenesses)
      return [{ permit, atUs, fromUs, untilUs: fromUs + slackUs, lateUs, askedUs }]
    })
    const nowUs = clock.monotonicUs()
    const answers = answered.map(({ answer }) => answer)
    const denied = answers.find((answer) => answer.kind === 'denied') ?? null
    const unknown = answers.find((answer) => answer.kind === 'unknown')
    if (unknown) {
      const message = `The backend ${line.backend} does not know the limit ${unknown.limit}, and no code of this process defines it.`
      trouble.report('warn', new SluiceError('limit.unknown', message), {}, 'jobs wait for a limit of a backend')
    }
    const refusal = denied ?? (unknown ? refusalOf(line, UNKNOWN_US) : null)
    this.#book.answered(line, paid, refusal, nowUs, link?.answered(line, paid.length, denied, nowUs))
  }

  #begun(job: GrantedJob, tickets: readonly Ticket[], remote: boolean): void {
    if (remote && tickets.some(({ permit }) => permit)) this.#watch(job)
    this.#runs.set(nameOf(job), [job, tickets])
    this.#took(tickets)
    for (const { line, permit } of tickets)
      // Its lease may end, as when the backend lost it. The run goes on, since the job's own lease guards it.
      if (permit) this.#links.get(line.backend)?.permits.hold(permit, () => undefined)
  }

  /** Ends a run that another process may have settled, once it has. Until then its permits are kept. */
  #watch(run: RunName): void {
    const { clock, leaseUs, store } = this.#options
    const look = async (): Promise<void> => {
      if (this.#stopped || !this.#runs.has(nameOf(run))) return
      const job = await store.get(run.id).catch(() => undefined)
      if (job !== undefined && (job?.state !== 'active' || job.attempt !== run.attempt)) this.ended(run)
      else this.#watch(run)
    }
    clock.setTimer(() => void look(), leaseUs / 2000).unref?.()
  }

  /** Resolves once the questions that are on their way are answered. */
  async answered(): Promise<void> {
    await Promise.all([...this.#links.values()].flatMap(({ question }) => question ?? []))
  }

  /** Returns the permits of starts that have ended, or may have been lost. */
  #release(tickets: readonly Ticket[]): void {
    for (const { line, permit } of tickets) {
      const link = permit && this.#links.get(line.backend)
      if (link) void link.release(permit).then((isBack) => isBack && this.#returned(permit.of))
    }
  }

  /** Makes the jobs due that wait for permits of these buckets. */
  #returned(buckets: readonly BucketName[]): void {
    this.#reopen(this.#book.returned(buckets, true))
  }

  #reopen(buckets: readonly BucketName[]): void {
    const { store, trouble, wakeup } = this.#options
    if (buckets.length === 0 || this.#stopped) return
    store.reopen(buckets).then(
      () => wakeup.notify('work'),
      (error: unknown) => trouble.report('warn', error, {}, 'what has returned could not be told to the store'),
    )
  }

  /** Gives units back, as far as the backend can; otherwise they lapse. */
  async #return(tickets: readonly Ticket[]): Promise<void> {
    const returning = tickets.map(async ({ line, permit, atUs }) => {
      const link = this.#links.get(line.backend)
      if (!link) return
      if (permit) await link.release(permit)
      await link.giveBack(line, atUs)
    })
    await Promise.allSettled(returning)
    this.#returned(tickets.flatMap(({ permit }) => permit?.of ?? []))
  }

  /** The next claim has something to learn. */
  #news(): void {
    if (!this.#stopped) this.#options.wakeup.notify('work')
  }

  #setTimer(): void {
    const { clock } = this.#options
    this.#timer?.cancel()
    this.#timer = null
    const dueUs = Math.min(this.#book.nextUs ?? Infinity, (this.#book.lapsesUs ?? Infinity) + 1)
    if (dueUs === Infinity || this.#stopped) return
    // A line whose backend is being asked already comes after the answer.
    const isBusy = [...this.#links.values()].some(({ question }) => question !== null)
    const delayUs = Math.max(isBusy ? 1000 : 0, dueUs - clock.monotonicUs())
    this.#timer = clock.setTimer(() => this.#ask(), delayUs / 1000)
    this.#timer.unref?.()
  }
}

/** An answer, and when it was asked for and came, on the steady clock. */
interface TimedAnswer {
  readonly answer: UnitAnswer
  readonly askedUs: number
  readonly answeredUs: number
}

/** A run of a job, by its job and its attempt. */
interface RunName {
  readonly id: string
  readonly attempt: number
}

function nameOf({ id, attempt }: RunName): string {
  return `${id} ${attempt}`
}

function refusalOf({ uses }: PaidLine, retryAfterUs: number): Denied {
  const { limit = '', key = '' } = uses[0] ?? {}
  return { kind: 'denied', by: { limit, key }, retryAfterUs }
}
