import { systemClock } from '../../base/clock.ts'
import { systemRandom } from '../../base/random.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import type { Timeline } from '../../policy/limits/timeline.ts'
import type {
  BucketName,
  BucketReport,
  BudgetLeft,
  ChangeRequest,
  ChargeName,
  Confirmation,
  Granted,
  HeldPermit,
  LimitBackend,
  ReservationAnswer,
  UnitAnswer,
  UnitRequest,
} from '../contract/limiter.ts'
import { acquireIn } from '../ledger/acquire.ts'
import { definitionEvent, type LimitEvent, undefinedLimit } from '../ledger/changes.ts'
import { type BucketCorrection, calibrateTo, chargeBy, closeFor, renew, reportOf } from '../ledger/corrections.ts'
import { ClockOffset } from '../ledger/clock-offset.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { NamedCharges } from '../ledger/named-charges.ts'
import { cancelIn, confirmIn, type Reservation, reserveIn } from '../ledger/reservations.ts'
import { listOf, type RedisClient, RedisScripts, scriptOf, textOf, wholeOf } from './client.ts'
import { RedisKeys } from './keys.ts'
import { ACQUIRE, PERMITS, READ, SWAP } from './lua/embedded.ts'
import { RedisPolicies } from './policies.ts'
import { RedisBucket } from './redis-bucket.ts'
import { parsed, stored } from './reservation-text.ts'
import { type ScriptAnswer, ScriptCall } from './script-call.ts'

const ACQUIRE_SCRIPT = scriptOf(ACQUIRE)
const PERMITS_SCRIPT = scriptOf(PERMITS)
const READ_SCRIPT = scriptOf(READ)
const SWAP_SCRIPT = scriptOf(SWAP)

/** The most requests in one call of the script, so that no call holds the server up for long. */
const MOST_REQUESTS = 100
/** A decision that is made here is written within this time, or made again. */
const FRESH_US = 100_000
/** How often a decision that is made here is made again, since another caller was first. */
const TRIES = 100
/** A call that reaches the server later than this is not carried out: its caller has given it up. */
const PATIENCE_US = 300_000

/** The parts of the backend on Redis. */
export interface RedisOptions {
  readonly namespace: string
  readonly close: () => Promise<void>
  /** The clock, for tests; absent: the server's. */
  readonly nowUs?: () => number
}

/** Plain values beside the buckets of a step: their keys, and their new texts. */
interface Values {
  readonly read: readonly (string | null)[]
  readonly write: { text: string; ttlMs: number }[]
}

/**
 * Limits on Redis. One script decides requests on the server. Everything rarer is decided here, with the same functions
 * as in memory, and written if nothing has changed meanwhile.
 */
export class RedisBackend implements LimitBackend {
  readonly isLocal = false
  readonly namesCharges = true
  readonly #scripts: RedisScripts
  readonly #keys: RedisKeys
  readonly #policies: RedisPolicies
  readonly #options: RedisOptions
  readonly #offset = new ClockOffset()
  readonly #named = new NamedCharges()

  constructor(client: RedisClient, options: RedisOptions) {
    this.#scripts = new RedisScripts(client)
    this.#keys = new RedisKeys(options.namespace)
    this.#policies = new RedisPolicies(this.#scripts, this.#keys)
    this.#options = options
  }

  async define(definitions: readonly LimitDefinition[]): Promise<readonly string[]> {
    const [nowUs] = await this.#look()
    return this.#policies.change(() => {
      const changes = new Map<string, LimitEvent>()
      for (const each of definitions) {
        const event = definitionEvent(this.#policies.timeline(each.name), each, nowUs)
        if (event) changes.set(each.name, event)
      }
      return changes
    })
  }

  async acquire(requests: readonly UnitRequest[]): Promise<readonly UnitAnswer[]> {
    if (requests.length <= MOST_REQUESTS) return this.#acquire(requests)
    const parts: UnitAnswer[] = []
    for (let i = 0; i < requests.length; i += MOST_REQUESTS)
      parts.push(...(await this.#acquire(requests.slice(i, i + MOST_REQUESTS))))
    return parts
  }

  async reserve(request: UnitRequest, atMostUs: number): Promise<ReservationAnswer> {
    return this.#transact(request.uses, [this.#keys.reservation(request.permit)], (ledger, { read, write }) => {
      const before = parsed(read[0])
      const { answer, reservation } = reserveIn(ledger, request, atMostUs, before)
      if (reservation) write[0] = stored(reservation, ledger.nowUs)
      else if (before) write[0] = { text: '', ttlMs: 0 }
      return answer
    })
  }

  async confirm(id: string): Promise<Confirmation> {
    const known = await this.#reservation(id)
    if (!known) return { kind: 'gone' }
    return this.#transact(known.request.uses, [this.#keys.reservation(id)], (ledger, { read, write }) => {
      const reservation = parsed(read[0])
      if (!reservation) return { kind: 'gone' }
      const { answer, next } = confirmIn(ledger, reservation)
      write[0] = next ? stored(next, ledger.nowUs) : { text: '', ttlMs: 0 }
      return answer
    })
  }

  async cancel(id: string): Promise<boolean> {
    const known = await this.#reservation(id)
    if (!known) return false
    return this.#transact(known.request.uses, [this.#keys.reservation(id)], (ledger, { read, write }) => {
      const reservation = parsed(read[0])
      if (!reservation) return false
      cancelIn(ledger, reservation)
      write[0] = { text: '', ttlMs: 0 }
      return true
    })
  }

  async release(permits: readonly HeldPermit[]): Promise<void> {
    await this.#changePermits(permits, '')
  }

  async extend(permits: readonly HeldPermit[], leaseUs: number): Promise<readonly HeldPermit[]> {
    const held = await this.#changePermits(permits, String(leaseUs))
    return permits.filter((permit) => !held.get(permit))
  }

  async charge(bucket: BucketName, units: number, atUs: number, name?: ChargeName): Promise<void> {
    await this.#named.once(name, async (again) => {
      if (units >= 0 || !(await this.#giveBack(bucket, -units, atUs, name)))
        await this.#correct(bucket, chargeBy(units, atUs), name)
      // A try whose answer was lost may reach the server yet: then it has to know the name.
      if (name && !again) await this.#scripts.command('DEL', this.#keys.charge(name.id)).catch(() => 0)
    })
  }

  async penalize(bucket: BucketName, forUs: number): Promise<boolean> {
    return this.#correct(bucket, closeFor(forUs))
  }

  async calibrate(bucket: BucketName, report: BudgetLeft): Promise<boolean> {
    return this.#correct(bucket, calibrateTo(report))
  }

  async change(request: ChangeRequest): Promise<boolean> {
    return this.#policies.override(request, (await this.#look())[0])
  }

  async inspect({ limit, key }: BucketName): Promise<BucketReport | null> {
    return this.#transact([{ limit, key }], [], (ledger) => {
      const bucket = ledger.bucket(limit, key)
      return bucket && reportOf(bucket, this.#policies.timeline(limit), ledger.nowUs)
    })
  }

  async forget(bucket: BucketName): Promise<void> {
    await this.#correct(bucket, renew)
  }

  async ready(): Promise<void> {
    // No reservation has this name.
    await this.#transact([], [this.#keys.reservation('\0ready')], ({ nowUs }, { write }) => {
      write[0] = { text: String(nowUs), ttlMs: 1000 }
    })
  }

  async close(): Promise<void> {
    await this.#options.close()
  }

  async #acquire(requests: readonly UnitRequest[]): Promise<readonly UnitAnswer[]> {
    const call = new ScriptCall(this.#keys, requests)
    const windows = this.#windows(call.buckets)
    const [decidedUs, answers] = await this.#inTime(call, windows, requests[0]?.caller)
    const nowUs = this.#options.nowUs ? decidedUs : systemClock.monotonicUs() + this.#offset.guessUs
    const decided = requests.map((request, i) => call.answerTo(request, answers[i] as ScriptAnswer, decidedUs, nowUs))
    const left = requests.filter((_, i) => decided[i] === null)
    if (left.length === 0) return decided as UnitAnswer[]
    const rest = [...(await this.#askAgain(left, call.buckets, windows))]
    return decided.map((answer) => answer ?? (rest.shift() as UnitAnswer))
  }

  /** Lets the script give units back: on a hot key another caller is always first. False: it leaves that to this process. */
  async #giveBack(bucket: BucketName, units: number, atUs: number, name?: ChargeName): Promise<boolean> {
    const request = { uses: [{ ...bucket, weight: units }], priority: 0, line: 0, permit: '', leaseUs: 0 }
    const call = new ScriptCall(this.#keys, [request])
    const back = name ? [String(atUs), String(knownMs(name))] : [String(atUs), '']
    if (name) call.keys.push(this.#keys.charge(name.id))
    const [nowUs, [answer]] = await this.#inTime(call, this.#windows([bucket]), '', back)
    return call.answerTo(request, answer as ScriptAnswer, nowUs, nowUs) !== null
  }

  /** The windows of calendars by the server's clock, or by this host's before the first answer. The script checks it. */
  #windows(names: readonly BucketName[]): string {
    const here = this.#offset.isKnown ? systemClock.monotonicUs() + this.#offset.guessUs : systemClock.now() * 1000
    return this.#policies.windows(names, this.#options.nowUs?.() ?? here)
  }

  /** Runs the script, unless it would reach the server too late. A clock that was set forward costs a second call. */
  async #inTime(
    call: ScriptCall,
    windows: string,
    caller = '',
    back: readonly string[] = ['', ''],
  ): Promise<readonly [nowUs: number, answers: readonly ScriptAnswer[]]> {
    const { keys, args } = call
    const testUs = this.#options.nowUs?.()
    for (let tries = 0; tries < 2; tries++) {
      const sentUs = systemClock.monotonicUs()
      const isFree = !this.#offset.isKnown || testUs !== undefined
      const latest = isFree ? '' : String(sentUs + this.#offset.guessUs + PATIENCE_US)
      const more = [...args, latest, String(testUs ?? ''), caller, windows, ...back]
      const { nowUs, answers } = call.read(await this.#scripts.run(ACQUIRE_SCRIPT, keys, more))
      this.#offset.note(sentUs, systemClock.monotonicUs(), nowUs)
      if (answers) return [nowUs, answers]
    }
    throw new Error('the call reached the server too late')
  }

  /**
   * Asks again if the script lacked windows of a calendar. Else this process decides, one request after the other:
   * each may need a permit of its own.
   */
  async #askAgain(
    requests: readonly UnitRequest[],
    names: readonly BucketName[],
    windows: string,
  ): Promise<readonly UnitAnswer[]> {
    await this.#policies.read((await this.#look())[1])
    if (this.#windows(names) !== windows) return this.#acquire(requests)
    const answers: UnitAnswer[] = []
    const stopped = new Map<number, UnitAnswer>()
    for (const request of requests) {
      const answer =
        stopped.get(request.line) ??
        (await this.#transact(request.uses, [], (ledger) => acquireIn(ledger, [request])[0] as UnitAnswer))
      if (answer.kind !== 'granted') stopped.set(request.line, answer)
      answers.push(answer.kind === 'granted' ? this.#aged(answer) : answer)
    }
    return answers
  }

  /** A grant as of its answer: the way took its time. */
  #aged(granted: Granted): Granted {
    return { ...granted, startInUs: (this.#options.nowUs && granted.startInUs) ?? -this.#sinceUs(granted.atUs) }
  }

  /** The time since an instant of the server, by the best guess. */
  #sinceUs(atUs: number): number {
    return this.#options.nowUs ? 0 : systemClock.monotonicUs() + this.#offset.guessUs - atUs
  }

  #correct({ limit, key }: BucketName, correction: BucketCorrection, name?: ChargeName): Promise<boolean> {
    const names = name ? [this.#keys.charge(name.id)] : []
    return this.#transact([{ limit, key }], names, (ledger, { read, write }) => {
      const bucket = ledger.bucket(limit, key)
      if (!bucket) throw undefinedLimit(limit)
      if (typeof read[0] === 'string') return false
      if (name) write[0] = { text: '1', ttlMs: knownMs(name) }
      const done = correction(bucket, ledger.nowUs)
      if (done !== 'no') bucket.changed = true
      return done === 'news'
    })
  }

  /** Reads buckets and more values, lets `work` decide, and writes. It begins again if another caller was first. */
  async #transact<T>(
    names: readonly BucketName[],
    more: readonly string[],
    work: (ledger: Ledger, values: Values) => T,
  ): Promise<T> {
    const keys = [
      this.#keys.policies,
      ...names.flatMap((name) => [this.#keys.bucket(name), this.#keys.permits(name)]),
      ...more,
    ]
    const limits = names.map(({ limit }) => limit)
    for (let tries = 0; tries < TRIES; tries++) {
      if (tries > 3) await pause(systemRandom.next() * Math.min(tries, 10))
      const args = [String(this.#options.nowUs?.() ?? ''), String(names.length)]
      const reply = listOf(await this.#scripts.run(READ_SCRIPT, keys, args), 2 + 2 * names.length + more.length)
      const nowUs = wholeOf(reply[0])
      await this.#policies.read(textOf(reply[1]) ?? '')
      if (await this.#policies.endOverdue(limits, nowUs)) continue
      const buckets = this.#buckets(names, reply, nowUs)
      const read = more.map((_, i) => textOf(reply[2 + 2 * names.length + i]))
      const values: Values = { read, write: read.map((text) => ({ text: text ?? '', ttlMs: -1 })) }
      const bucket = (limit: string, key: string): RedisBucket | null =>
        buckets.find((each) => each?.limit === limit && each.key === key) ?? null
      const timeline = (limit: string): Timeline => this.#policies.timeline(limit)
      const result = work({ nowUs, bucket, timeline }, values)
      if (await this.#swap(keys, names, buckets, values, nowUs)) return result
    }
    throw new Error('other callers change these buckets all the time')
  }

  #buckets(names: readonly BucketName[], reply: readonly unknown[], nowUs: number): (RedisBucket | null)[] {
    return names.map((name, i) => {
      const [stored, active] = [textOf(reply[2 + 2 * i]) ?? '', wholeOf(reply[3 + 2 * i])]
      const timeline = this.#policies.timeline(name.limit)
      return timeline.definition && new RedisBucket(name, stored, active, timeline, nowUs)
    })
  }

  async #swap(
    keys: readonly string[],
    names: readonly BucketName[],
    buckets: readonly (RedisBucket | null)[],
    { read, write }: Values,
    nowUs: number,
  ): Promise<boolean> {
    const isSame = write.every(({ ttlMs }) => ttlMs === -1)
    if (isSame && buckets.every((bucket) => !bucket?.changed && !bucket?.permit)) return true
    const args = [String(nowUs), this.#options.nowUs ? '' : String(FRESH_US), this.#policies.generation]
    args.push(String(names.length))
    for (const bucket of buckets) {
      if (!bucket) return false
      const { text, ttlMs } = bucket.changed ? bucket.written(nowUs) : { text: '=', ttlMs: 0 }
      const { permit, active, stored: before } = bucket
      args.push(
        before,
        text,
        // The clock of a test does not move the server's, by which keys expire.
        String(this.#options.nowUs ? Math.max(ttlMs, 60_000) : ttlMs),
        permit ? String(active) : '',
        permit?.id ?? '',
        String(permit?.untilUs ?? ''),
      )
    }
    for (const [i, { text, ttlMs }] of write.entries())
      args.push(read[i] ?? '', ttlMs === -1 ? '=' : text, String(ttlMs))
    return wholeOf(await this.#scripts.run(SWAP_SCRIPT, keys, args)) === 1
  }

  async #changePermits(permits: readonly HeldPermit[], lease: string): Promise<ReadonlyMap<HeldPermit, boolean>> {
    const each = permits.flatMap((permit) => permit.of.map((name) => ({ permit, name })))
    const keys = each.map(({ name }) => this.#keys.permits(name))
    const args = [String(this.#options.nowUs?.() ?? ''), lease, ...each.map(({ permit }) => permit.id)]
    const reply = keys.length === 0 ? [] : listOf(await this.#scripts.run(PERMITS_SCRIPT, keys, args), keys.length)
    const held = new Map<HeldPermit, boolean>()
    for (const [i, { permit }] of each.entries())
      held.set(permit, (held.get(permit) ?? true) && wholeOf(reply[i]) === 1)
    return held
  }

  /** The instant, and the generation of the limits. */
  async #look(): Promise<[nowUs: number, generation: string]> {
    const args = [String(this.#options.nowUs?.() ?? ''), '0']
    const [nowUs, generation] = listOf(await this.#scripts.run(READ_SCRIPT, [this.#keys.policies], args), 2)
    return [wholeOf(nowUs), textOf(generation) ?? '']
  }

  async #reservation(id: string): Promise<Reservation | null> {
    return parsed(textOf(await this.#scripts.command('GET', this.#keys.reservation(id))))
  }
}

/** How long the server remembers a correction: until its caller certainly asks for it no more, by another clock. */
function knownMs({ forUs }: ChargeName): number {
  return Math.ceil(forUs / 1000) + 60_000
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => systemClock.setTimer(resolve, ms))
}
