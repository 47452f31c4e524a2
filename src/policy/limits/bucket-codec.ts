import { SluiceError } from '../../base/errors.ts'
import { decodeRule, encodeRule } from '../rules/rule-codec.ts'
import type { Allowance } from './allowance.ts'
import type { Booked } from './booked.ts'
import type { BucketState, ShadowTally } from './bucket.ts'

/** A bucket as compact text, a JSON array. */
export function encodeBucket(state: BucketState): string {
  const { atUs, allowance } = state
  // Encoded behind a number that no rule uses, and only while it exists: every claim reads and writes buckets.
  const reported = allowance
    ? `,${ALLOWANCE},${allowance.units},${allowance.untilUs - atUs},${allowance.sinceUs - atUs}`
    : ''
  const spaced = state.spacing ? `,${SPACED},${state.spacing.nextUs - atUs}` : ''
  const assured = state.guarantee ? `,${GUARANTEED},${encodeRule(state.guarantee, atUs)}` : ''
  const { delayed, dropped, totalUs, worstUs } = state.shadow ?? { delayed: -1 }
  const told = delayed < 0 ? '' : `,${SHADOW},${delayed},${dropped},${totalUs},${worstUs}`
  const { lateUs, backUs, startedUs, count, untilUs } = state.booked ?? { lateUs: -1 }
  const booked = lateUs < 0 ? '' : `,${BOOKED},${lateUs},${backUs},${startedUs},${count},${untilUs}`
  const head = `[${atUs},${state.closedUntilUs}${reported}${spaced}${assured}${told}${booked}`
  return state.rule === null ? `${head}]` : `${head},${encodeRule(state.rule, state.atUs)}]`
}

/** Reads the output of `encodeBucket`. @throws {SluiceError} `store.io` for invalid text */
export function decodeBucket(text: string): BucketState {
  const values = numbersOf(text)
  const [atUs, closedUntilUs] = values
  if (atUs === undefined || closedUntilUs === undefined) throw damaged(text)
  const allowance = decodeAllowance(values, atUs)
  const spacedAt = allowance ? 6 : 2
  const spaced = values[spacedAt] === SPACED ? values[spacedAt + 1] : undefined
  const assuredAt = spaced === undefined ? spacedAt : spacedAt + 2
  const assured =
    values[assuredAt] === GUARANTEED ? decodeRule(values.slice(assuredAt + 1, assuredAt + 7), 0, atUs) : null
  const toldAt = assured ? assuredAt + 7 : assuredAt
  const shadow = values[toldAt] === SHADOW ? decodeShadow(values, toldAt) : null
  const bookedAt = shadow ? toldAt + 5 : toldAt
  const booked = values[bookedAt] === BOOKED ? decodeBooked(values, bookedAt) : null
  const from = booked ? bookedAt + 6 : bookedAt
  const rule = values.length === from ? null : decodeRule(values, from, atUs)
  if (rule === null && (values.length > from || spaced !== undefined)) throw damaged(text)
  const spacing = spaced === undefined ? null : { kind: 'spacing' as const, nextUs: atUs + spaced }
  const guarantee = assured?.kind === 'rate' && { guarantee: assured }
  const counts = { ...guarantee, ...(shadow && { shadow }), ...(booked && { booked }) }
  return { atUs, closedUntilUs, rule, ...(spacing && { spacing }), ...(allowance && { allowance }), ...counts }
}

const ALLOWANCE = 5
const SPACED = 6
const GUARANTEED = 7
const SHADOW = 8
const BOOKED = 9

function decodeAllowance(values: readonly number[], atUs: number): Allowance | null {
  if (values[2] !== ALLOWANCE || values.length < 6) return null
  const [units = 0, untilUs = 0, sinceUs = 0] = values.slice(3, 6)
  return { units, untilUs: atUs + untilUs, sinceUs: atUs + sinceUs }
}

function decodeShadow(values: readonly number[], at: number): ShadowTally {
  const [delayed = 0, dropped = 0, totalUs = 0, worstUs = 0] = values.slice(at + 1, at + 5)
  return { delayed, dropped, totalUs, worstUs }
}

function decodeBooked(values: readonly number[], at: number): Booked | null {
  if (values.length < at + 6) return null
  const [lateUs = 0, backUs = 0, startedUs = 0, count = 0, untilUs = 0] = values.slice(at + 1, at + 6)
  return { lateUs, backUs, startedUs, count, untilUs }
}

function numbersOf(text: string): readonly number[] {
  let values: unknown
  try {
    values = JSON.parse(text)
  } catch (cause) {
    throw damaged(text, cause)
  }
  if (!Array.isArray(values)) throw damaged(text)
  for (const value of values as unknown[]) if (!Number.isSafeInteger(value)) throw damaged(text)
  return values as readonly number[]
}

function damaged(text: string, cause?: unknown): SluiceError {
  const message = `the state of a bucket cannot be read (${text.slice(0, 40)}); check the store for damage`
  return new SluiceError('store.io', message, { cause })
}
