import { describe, expect, test } from 'vitest'
import { isFinal, STATES, TRANSITIONS, type JobState } from '../../src/jobs/job-state.ts'

const from = (state: JobState): readonly JobState[] =>
  TRANSITIONS.filter((move) => move.from === state).map(({ to }) => to)

describe('the states of a job', () => {
  test('are the eight of the Open Job Spec', () => {
    expect(STATES).toEqual('scheduled available pending active completed retryable cancelled discarded'.split(' '))
  })

  test('are final when the job has ended', () => {
    expect(STATES.filter(isFinal)).toEqual(['completed', 'cancelled', 'discarded'])
  })
})

describe('the transitions', () => {
  test('are listed once each, with a cause, between different states', () => {
    const pairs = TRANSITIONS.map((move) => `${move.from} ${move.to}`)
    expect(new Set(pairs).size).toBe(pairs.length)
    for (const move of TRANSITIONS) {
      expect(move.by.length).toBeGreaterThan(0)
      expect(move.from).not.toBe(move.to)
    }
  })

  test('leave a final state only by a manual retry of a discarded job', () => {
    expect(TRANSITIONS.filter((move) => isFinal(move.from))).toEqual([
      { from: 'discarded', to: 'available', by: ['retry'] },
    ])
  })

  test('lead to active only from available, by a claim', () => {
    expect(TRANSITIONS.filter((move) => move.to === 'active')).toEqual([
      { from: 'available', to: 'active', by: ['claim'] },
    ])
  })

  test('let a job be cancelled from every state that is not final', () => {
    for (const state of STATES) expect(from(state).includes('cancelled')).toBe(!isFinal(state))
  })

  test('let every job that has not ended end as completed', () => {
    for (const start of STATES.filter((state) => !isFinal(state))) {
      const reached = new Set<JobState>([start])
      for (const state of reached) for (const next of from(state)) reached.add(next)
      expect(reached).toContain('completed')
    }
  })
})
