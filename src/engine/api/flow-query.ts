import { SluiceError } from '../../base/errors.ts'
import { checkOptions, checkText, show } from '../../base/options.ts'
import { isStorable } from '../../base/text.ts'
import { checkLimit, readCursor, writeCursor } from './cursor.ts'
import { FLOW_KINDS, FLOW_STATES, type FlowKind, type FlowQuery, type FlowState } from '../../jobs/flow.ts'

/** A filter of flows. */
export interface FlowFilter {
  readonly states?: readonly FlowState[]
  readonly kind?: FlowKind
  /** The name of a chain, a group or a batch, or of a workflow. */
  readonly name?: string
  /** The name of a workflow: only its flows. */
  readonly workflow?: string
  readonly key?: string
}

/** The newest flows that match a filter. */
export interface FlowListQuery extends FlowFilter {
  /** 1 to 1,000; default 100. */
  readonly limit?: number
  /** Only flows older than this one, by its `seq`. */
  readonly before?: number
}

/** One page of flows. */
export interface FlowPageQuery extends FlowFilter {
  /** 1 to 1,000; default 100. */
  readonly limit?: number
  /** The cursor of the page before; null or absent: the first page. */
  readonly cursor?: string | null
}

const FILTER = ['states', 'kind', 'name', 'workflow', 'key'] as const

/**
 * Checks a filter of flows, and reads the cursor of its page. Null: a name that no store can hold has no flow.
 * @throws {SluiceError} `option.invalid`
 */
export function flowQuery(
  query: FlowListQuery & FlowPageQuery,
  what: 'flows.list' | 'flows.page',
): { readonly store: FlowQuery | null; readonly limit: number } {
  const place = what === 'flows.list' ? 'before' : 'cursor'
  checkOptions(query, [...FILTER, 'limit', place], what, { aliases: { state: 'states', task: 'workflow' } })
  const wrong = (why: string): SluiceError => new SluiceError('option.invalid', `${what}: ${why}`)
  const { states, kind, limit = 100, before, cursor } = query
  if (states !== undefined && !Array.isArray(states))
    throw wrong(`states is invalid: ${show(states)}. Expected a list of ${FLOW_STATES.join(', ')}.`)
  for (const state of (states ?? []) as readonly FlowState[])
    if (!FLOW_STATES.includes(state))
      throw wrong(`states is invalid: ${show(state)}. Expected ${FLOW_STATES.join(', ')}.`)
  if (kind !== undefined && !FLOW_KINDS.includes(kind))
    throw wrong(`kind is invalid: ${show(kind)}. Expected one of ${FLOW_KINDS.join(', ')}.`)
  for (const name of ['name', 'workflow', 'key'] as const)
    if (query[name] !== undefined) checkText(query[name], `${what}: ${name}`)
  if (before !== undefined && !Number.isSafeInteger(before))
    throw wrong(`before is invalid: ${show(before)}. Expected the number of a flow.`)
  checkLimit(limit, what)
  const from = readCursor(cursor, fieldsOf(query), what) ?? before
  const filter = filterOf(query)
  const isHeld = [filter.name, filter.workflow, filter.key].every((text) => isStorable(text ?? ''))
  return { store: isHeld ? { ...filter, ...(from !== undefined && { before: from }), limit } : null, limit }
}

/** The cursor of the page behind a flow. */
export function flowCursorAfter(last: { readonly seq: number }, filter: FlowFilter): string {
  return writeCursor(last.seq, fieldsOf(filter))
}

function filterOf(query: FlowFilter): FlowFilter {
  return Object.fromEntries(FILTER.flatMap((name) => (query[name] === undefined ? [] : [[name, query[name]]])))
}

function fieldsOf({ states, kind, name, workflow, key }: FlowFilter): unknown[] {
  return [states ? [...new Set(states)].toSorted() : null, kind, name, workflow, key]
}
