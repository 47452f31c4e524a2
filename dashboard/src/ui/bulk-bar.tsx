import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactElement, useState } from 'react'
import { change as send } from '../api/client.ts'
import { useChange } from '../api/queries.ts'
import type { Bulk, BulkAction, JobRow } from '../api/types.ts'
import { Field, Refused, useMayAct } from './act.tsx'
import { BulkProgress } from './bulk-progress.tsx'
import { Modal } from './modal.tsx'
import { Button } from './parts.tsx'
import { count, plural } from './words.ts'

/** Which jobs a change is for: some by id, or all that the filter matches. */
export type Selection =
  | { readonly kind: 'none' }
  | { readonly kind: 'some'; readonly ids: ReadonlySet<string> }
  | { readonly kind: 'all' }

const ACTIONS: readonly (readonly [BulkAction, string])[] = [
  ['cancel', 'Cancel'],
  ['retry', 'Retry'],
  ['move', 'Move'],
  ['priority', 'Priority'],
  ['delete', 'Delete'],
]

/** The server takes no more ids in one filter. */
const IDS_AT_MOST = 1000

/** Selects, and asks for a change of what is selected. */
export function BulkBar({
  selection,
  setSelection,
  filter,
  rows,
  total,
}: {
  readonly selection: Selection
  readonly setSelection: (next: Selection) => void
  readonly filter: Record<string, string>
  readonly rows: readonly JobRow[]
  readonly total: { readonly count: number; readonly exact: boolean } | undefined
}): ReactElement | null {
  const [action, setAction] = useState<BulkAction | null>(null)
  const mayAct = useMayAct()
  if (!mayAct) return null
  const all = total ? `${total.exact ? '' : 'at least '}${count(total.count)}` : ''
  return (
    <div className="flex min-h-12 flex-wrap items-center gap-x-3 gap-y-2 border-b border-line px-4 py-1.5">
      {selection.kind === 'none' ? (
        <>
          <Button
            kind="quiet"
            className="-ml-3"
            onClick={() => setSelection({ kind: 'some', ids: new Set(rows.slice(0, IDS_AT_MOST).map(({ id }) => id)) })}
          >
            Select the {rows.length > IDS_AT_MOST ? `first ${count(IDS_AT_MOST)}` : count(rows.length)} shown
          </Button>
          <Button kind="quiet" onClick={() => setSelection({ kind: 'all' })}>
            Select all {all} that match
          </Button>
        </>
      ) : (
        <>
          <strong className="numbers font-medium">
            {selection.kind === 'all' ? `All ${all} that match` : `${count(selection.ids.size)} selected`}
          </strong>
          {ACTIONS.map(([each, words]) => (
            <Button key={each} kind={each === 'delete' ? 'danger' : 'plain'} onClick={() => setAction(each)}>
              {words}
            </Button>
          ))}
          <Button kind="quiet" onClick={() => setSelection({ kind: 'none' })}>
            Clear selection
          </Button>
        </>
      )}
      {action !== null && selection.kind !== 'none' && (
        <BulkDialog
          action={action}
          filter={selection.kind === 'all' ? filterBody(filter) : { id: [...selection.ids] }}
          onClose={() => setAction(null)}
        />
      )}
    </div>
  )
}

const DOES: Record<BulkAction, string> = {
  cancel: 'will be cancelled. What runs is asked to stop.',
  retry: 'that were discarded will run again, with all their attempts.',
  move: 'that wait will go to another queue.',
  priority: 'that wait will get another priority.',
  delete: 'that have ended will be deleted, with all that is known of them.',
}

/** What a change needs beside the jobs. */
function Needs({
  action,
  value,
  setValue,
}: {
  readonly action: BulkAction
  readonly value: string
  readonly setValue: (value: string) => void
}): ReactElement | null {
  if (action === 'move')
    return (
      <Field label="To queue">
        <input className="field" value={value} onChange={(event) => setValue(event.target.value)} />
      </Field>
    )
  if (action === 'priority')
    return (
      <Field label="New priority" hint="A whole number; higher starts first.">
        <input className="field" type="number" value={value} onChange={(event) => setValue(event.target.value)} />
      </Field>
    )
  return null
}

/** Counts what a change would reach before anything is done; then the server does it, and says how far it is. */
function BulkDialog({
  action,
  filter,
  onClose,
}: {
  readonly action: BulkAction
  readonly filter: BulkFilter
  readonly onClose: () => void
}): ReactElement {
  const [value, setValue] = useState('')
  const [reason, setReason] = useState('')
  const starting = useChange<Bulk>()
  const body = {
    action,
    filter,
    ...(Object.keys(filter).length === 0 && { all: true as const }),
    ...(action === 'move' && { to: value.trim() }),
    ...(action === 'priority' && { priority: Number(value) }),
  }
  const ready = (action !== 'move' && action !== 'priority') || value.trim() !== ''
  const dry = useQuery({
    queryKey: ['dry-run', body],
    queryFn: ({ signal }) =>
      send<{ count: number; exact: boolean }>(
        { method: 'POST', path: '/bulk', body: { ...body, dryRun: true } },
        signal,
      ),
    enabled: ready && !starting.data,
    retry: false,
  })
  const reached = dry.data
  const title = ACTIONS.find(([each]) => each === action)?.[1] ?? action
  return (
    <Modal
      open
      onClose={onClose}
      title={filter['id'] === undefined ? `${title} all that match` : `${title} what is selected`}
      actions={
        starting.data ? (
          <>
            <Link to="/bulk" className="mr-auto self-center link">
              All bulk changes
            </Link>
            <Button onClick={onClose}>Close</Button>
          </>
        ) : (
          <>
            <Button onClick={onClose}>Leave it</Button>
            <Button
              kind={action === 'delete' || action === 'cancel' ? 'danger' : 'primary'}
              disabled={!reached || reached.count === 0 || starting.isPending}
              onClick={() =>
                starting.mutate({
                  method: 'POST',
                  path: '/bulk',
                  body: { ...body, ...(reason.trim() && { reason: reason.trim() }) },
                })
              }
            >
              {title} {reached ? plural(reached.count, 'job') : ''}
            </Button>
          </>
        )
      }
    >
      {starting.data ? (
        <BulkProgress id={starting.data.id} />
      ) : (
        <div className="grid gap-4">
          <p className="text-soft">
            <FilterWords filter={filter} />
          </p>
          <Needs action={action} value={value} setValue={setValue} />
          <p role="status" data-testid="dry-run">
            {reached ? (
              <>
                <strong className="numbers font-semibold">
                  {reached.exact ? '' : 'At least '}
                  {plural(reached.count, 'job')}
                </strong>{' '}
                {DOES[action]}
              </>
            ) : ready ? (
              dry.error ? null : (
                'Counting…'
              )
            ) : (
              'Fill in the field above first.'
            )}
          </p>
          <Field label="Why" hint="Kept in the audit, beside your name. May stay empty.">
            <input
              className="field"
              maxLength={1000}
              value={reason}
              onChange={(event) => setReason(event.target.value)}
            />
          </Field>
          <Refused error={starting.error ?? dry.error} />
        </div>
      )}
    </Modal>
  )
}

type BulkFilter = Readonly<Record<string, string | readonly string[]>>

function filterBody({ state, ...rest }: Record<string, string>): BulkFilter {
  return { ...rest, ...(state !== undefined && { state: state.split(',') }) }
}

/** A filter in words. */
export function FilterWords({ filter }: { readonly filter: Readonly<Record<string, unknown>> }): ReactElement {
  const entries = Object.entries(filter)
  if (entries.length === 0)
    return <strong className="font-semibold text-bad">There is no filter: every job matches.</strong>
  return (
    <span className="flex flex-wrap gap-1.5">
      {entries.map(([name, value]) => (
        <code
          key={name}
          className="rounded bg-sunken px-1.5 text-xs ring-1 ring-line ring-inset [overflow-wrap:anywhere]"
        >
          {name}: {filterValue(name, value)}
        </code>
      ))}
    </span>
  )
}

function filterValue(name: string, value: unknown): string {
  if (name === 'id' && Array.isArray(value) && value.length > 1) return `${count(value.length)} selected jobs`
  if (Array.isArray(value)) return value.join(', ')
  return typeof value === 'string' ? value : JSON.stringify(value)
}
