import type { FlowSignal, StepRecord } from '../../jobs/flow-memory.ts'
import type { FlowEntry } from '../../engine/define/flow-entry.ts'
import { recordOf } from '../shared/records.ts'
import type { Ask } from './ask.ts'
import type { Notes } from './notes.ts'

/** A step that has ended by a signal or by the time. */
export interface Due {
  readonly ask: Ask
  readonly record: StepRecord
  readonly signal: FlowSignal | null
}

/** The first step that an unread signal or the time ends; null: there is none. Signals go first. */
export function dueIn(
  asks: Iterable<Ask>,
  signals: readonly FlowSignal[],
  notes: Notes,
  { engine, store }: FlowEntry,
): Due | null {
  const nowUs = store.nowUs()
  let first: { readonly ask: Ask; readonly dueUs: number } | null = null
  for (const ask of asks) {
    const { name, want } = ask
    if (want.kind === 'signal') {
      const signal = signals.find((each) => each.name === want.signal && !notes.hasRead(each))
      if (signal) return { ask, signal, record: recordOf({ name, state: 'done', attempt: 1, result: signal.payload }) }
    }
    if ((want.kind !== 'signal' && want.kind !== 'sleep') || want.dueUs === null) continue
    const isOver =
      want.kind === 'sleep' && want.untilMs !== null ? want.untilMs <= engine.clock.now() : want.dueUs <= nowUs
    if (isOver && (first === null || want.dueUs < first.dueUs)) first = { ask, dueUs: want.dueUs }
  }
  if (!first) return null
  const { ask } = first
  const state = ask.want.kind === 'signal' ? 'skipped' : 'done'
  return { ask, signal: null, record: recordOf({ name: ask.name, state, attempt: 1 }) }
}
