import type { BucketName, Granted, UnitAnswer, UnitRequest } from '../contract/limiter.ts'
import { listOf, misread, wholeOf } from './client.ts'
import type { RedisKeys } from './keys.ts'

/** The answer of the script to one request; acquire.lua says how. */
export type ScriptAnswer = number | readonly [kind: number, ...number[]]

const DENIED = 0
const HOLDS = 1
const UNKNOWN = 2
const LEFT = 3
/** The single answer to a call that came too late. */
const LATE = -1

/** Requests as the script of acquire.lua reads them. */
export class ScriptCall {
  readonly keys: string[]
  /** The buckets, in the order in which requests and answers number them from 1. */
  readonly buckets: BucketName[] = []
  readonly #requests: (number | string)[][] = []

  constructor(keys: RedisKeys, requests: readonly UnitRequest[]) {
    this.keys = [keys.policies]
    const places = new Map<string, number>()
    for (const { uses, priority, line, permit, leaseUs, aheadUs = 0, withinUs = 0 } of requests) {
      const request = [line, priority, leaseUs, permit, aheadUs, withinUs]
      for (const use of uses) {
        const key = keys.bucket(use)
        let place = places.get(key)
        if (place === undefined) {
          place = this.buckets.push(use)
          places.set(key, place)
          this.keys.push(key, keys.permits(use))
        }
        request.push(place, use.weight)
      }
      this.#requests.push(request)
    }
  }

  /** The first arguments of the script. */
  get args(): readonly [requests: string, limits: string] {
    return [JSON.stringify(this.#requests), JSON.stringify(this.buckets.map(({ limit }) => limit))]
  }

  /** The instant of the script, and its answer to each request; null: the call came too late. */
  read(reply: unknown): { readonly nowUs: number; readonly answers: readonly ScriptAnswer[] | null } {
    const [now, ...answers] = listOf(reply)
    const nowUs = wholeOf(now)
    if (answers.length === 1 && answers[0] === LATE) return { nowUs, answers: null }
    if (answers.length !== this.#requests.length) throw misread(reply)
    return { nowUs, answers: answers.map((answer) => this.#checked(answer)) }
  }

  #checked(answer: unknown): ScriptAnswer {
    if (typeof answer === 'number' && answer >= 0) return wholeOf(answer)
    const [kind = NaN, ...rest] = listOf(answer).map(wholeOf)
    const isWhole =
      kind === LEFT ||
      (kind === DENIED && rest.length === 3 && this.#hasPlace(rest[0])) ||
      (kind === UNKNOWN && this.#hasPlace(rest[0])) ||
      (kind === HOLDS && rest.length > 1 && rest.slice(1).every((place) => this.#hasPlace(place)))
    if (isWhole) return [kind, ...rest]
    throw misread(answer)
  }

  #hasPlace(place = 0): boolean {
    return this.buckets[place - 1] !== undefined
  }

  /**
   * The answer to one request; null: the script leaves it to this process.
   * @param decidedUs the instant of the decision, and the present one, on the server's clock
   */
  answerTo({ permit: id }: UnitRequest, answer: ScriptAnswer, decidedUs: number, nowUs: number): UnitAnswer | null {
    if (typeof answer === 'number') return granted(decidedUs + answer, nowUs)
    const [kind, ...rest] = answer
    if (kind === LEFT) return null
    if (kind === DENIED) {
      const [place = 0, us = -1, callers = 0] = rest
      const retryAfterUs = us < 0 ? null : Math.max(0, us - (nowUs - decidedUs))
      return { kind: 'denied', by: this.#nameOf(place), retryAfterUs, ...(callers > 0 && { callers }) }
    }
    if (kind === UNKNOWN) return { kind: 'unknown', limit: this.#nameOf(rest[0]).limit }
    const [startInUs = 0, ...places] = rest
    const of = places.map((place) => this.#nameOf(place))
    return { ...granted(decidedUs + startInUs, nowUs), permit: { id, of } }
  }

  #nameOf(place = 0): BucketName {
    const { limit, key } = this.buckets[place - 1] as BucketName
    return { limit, key }
  }
}

/** A grant as of its answer: the way took its time. */
function granted(atUs: number, nowUs: number): Granted {
  return { kind: 'granted', atUs, startInUs: atUs - nowUs, permit: null }
}
