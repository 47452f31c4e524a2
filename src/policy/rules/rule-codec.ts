import type { RuleState } from './rule-state.ts'

const RATE = 1
const SLIDING = 2
const FIXED = 3
const SPACING = 4

/**
 * Encodes a rule's state as elements of a JSON array. Every claim reads and writes it for every bucket. Instants are
 * written as differences, since sixteen digits each would be most of the text.
 */
export function encodeRule(state: RuleState, atUs: number): string {
  if (state.kind === 'rate') {
    // JSON has no Infinity: none yet is -1.
    const slackUs = state.slackUs === Infinity ? -1 : state.slackUs
    return `${RATE},${state.tatUs - atUs},${state.rem},${atUs - state.lastUs},${atUs - state.fullUs},${slackUs}`
  }
  if (state.kind === 'sliding') {
    let text = `${SLIDING},${state.debt},${state.coarse ? 1 : 0}`
    let previousUs = atUs
    const { log } = state
    for (let i = 0; i < log.length; i += 2) {
      const us = log[i] ?? 0
      text += `,${us - previousUs},${log[i + 1] ?? 0}`
      previousUs = us
    }
    return text
  }
  if (state.kind === 'fixed')
    return `${FIXED},${state.startUs},${state.used}${fixedRest(state.beyond, state.next ?? 0)}`
  return `${SPACING},${state.nextUs - atUs}`
}

function fixedRest(beyond: number, next: number): string {
  if (next > 0) return `,${beyond},${next}`
  return beyond === 0 ? '' : `,${beyond}`
}

/** Reads the output of `encodeRule` from the given element on; null for an invalid state. */
export function decodeRule(values: readonly number[], from: number, atUs: number): RuleState | null {
  const [kind, a = 0, b = 0, c = 0, d = 0, e = 0] = values.slice(from, from + 6)
  const count = values.length - from
  if (kind === RATE && count === 6) {
    return {
      kind: 'rate',
      tatUs: atUs + a,
      rem: b,
      lastUs: atUs - c,
      fullUs: atUs - d,
      slackUs: e === -1 ? Infinity : e,
    }
  }
  if (kind === SLIDING && count % 2 === 1) {
    const log: number[] = []
    let used = 0
    let us = atUs
    for (let i = from + 3; i < values.length; i += 2) {
      const units = values[i + 1] ?? 0
      us += values[i] ?? 0
      used += units
      log.push(us, units)
    }
    return { kind: 'sliding', log, used, debt: a, coarse: b === 1 }
  }
  if (kind === FIXED && count >= 3 && count <= 5)
    return { kind: 'fixed', startUs: a, used: b, beyond: c, ...(d > 0 && { next: d }) }
  if (kind === SPACING && count === 2) return { kind: 'spacing', nextUs: atUs + a }
  return null
}
