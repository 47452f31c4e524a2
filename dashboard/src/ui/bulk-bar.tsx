import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactElement, useState } from 'react'
import { call } from '../api/client.ts'
import { useOffers } from '../api/offers.ts'
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
  const offers = useOffers()
  if (!mayAct) return null
  const all = total ? `${total.exact ? '' : 'at least '}${count(total.count)}` : ''
  return (
    <div className="flex min-h-12 flex-wrap items-center gap-x-3 gap-y-2 border-b border-line px-4 py-1.5">
      {selection.kind === 'none' ? (
        <>
          <Button
            kind="quiet"
            className="-ml-3"
            onClick={() => setSelection({ kind: 'some', ids: new Set(rows.map(({ id }) => id)) })}
          >
            Select the {count(rows.length)} shown
          </Button>
          {offers('POST /bulk') && (
            <Button kind="quiet" onClick={() => setSelection({ kind: 'all' })}>
              Select all {all} that match
            </Button>
          )}
        </>
      ) : (
        <>
          <strong className="numbers font-medium">
            {selection.kind === 'all' ? `All ${all} that match` : `${count(selection.ids.size)} selected`}
          </strong>
          {ACTIONS.filter(
            ([each]) =>
              selection.kind === 'all' || (each !== 'move' && (each !== 'priority' || offers('PATCH /jobs/{}'))),
          ).map(([each, words]) => (
            <Button key={each} kind={each === 'delete' ? 'danger' : 'plain'} onClick={() => setAction(each)}>
              {words}
            </Button>
          ))}
          <Button kind="quiet" onClick={() => setSelection({ kind: 'none' })}>
            Clear selection
          </Button>
        </>
      )}
      {action !== null && selection.kind === 'all' && (
        <OnAll action={action} filter={filter} onClose={() => setAction(null)} />
      )}
      {action !== null && selection.kind === 'some' && (
        <OnSome
          action={action}
          ids={[...selection.ids]}
          onClose={() => (setAction(null), setSelection({ kind: 'none' }))}
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
function OnAll({
  action,
  filter,
  onClose,
}: {
  readonly action: BulkAction
  readonly filter: Record<string, string>
  readonly onClose: () => void
}): ReactElement {
  const [value, setValue] = useState('')
  const [reason, setReason] = useState('')
  const starting = useChange<Bulk>()
  const body = {
    action,
    filter: filterBody(filter),
    ...(Object.keys(filter).length === 0 && { all: true }),
    ...(action === 'move' && { to: value.trim() }),
    ...(action === 'priority' && { priority: Number(value) }),
  }
  const ready = (action !== 'move' && action !== 'priority') || value.trim() !== ''
  const dry = useQuery({
    queryKey: ['dry-run', body],
    queryFn: ({ signal }) =>
      call<{ count: number; exact: boolean }>('POST', '/bulk', { body: { ...body, dryRun: true }, signal }),
    enabled: ready && !starting.data,
    retry: false,
  })
  const reached = dry.data
  const title = ACTIONS.find(([each]) => each === action)?.[1] ?? action
  return (
    <Modal
      open
      onClose={onClose}
      title={`${title} all that match`}
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
              'Say first where to.'
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

function filterBody(filter: Record<string, string>): Record<string, unknown> {
  const { state, ...rest } = filter
  return { ...rest, ...(state !== undefined && { state: state.split(',') }) }
}

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
          {name}: {Array.isArray(value) ? value.join(', ') : typeof value === 'string' ? value : JSON.stringify(value)}
        </code>
      ))}
    </span>
  )
}

/** Changes the selected jobs one by one, and says which the server refused. */
function OnSome({
  action,
  ids,
  onClose,
}: {
  readonly action: BulkAction
  readonly ids: readonly string[]
  readonly onClose: () => void
}): ReactElement {
  const change = useChange()
  const [value, setValue] = useState('')
  const [done, setDone] = useState<number | null>(null)
  const [refused, setRefused] = useState<string[]>([])
  const title = ACTIONS.find(([each]) => each === action)?.[1] ?? action
  const ready = action !== 'priority' || value.trim() !== ''
  const run = async (): Promise<void> => {
    setDone(0)
    for (const [n, id] of ids.entries()) {
      const path = `/jobs/${encodeURIComponent(id)}`
      const asked =
        action === 'delete'
          ? call('DELETE', path)
          : action === 'priority'
            ? call('PATCH', path, { body: { priority: Number(value) } })
            : call('POST', `${path}/${action}`, { body: {} })
      await asked.catch((error: unknown) =>
        setRefused((before) => [...before, error instanceof Error ? error.message : String(error)]),
      )
      setDone(n + 1)
    }
    change.reset()
  }
  const over = done === ids.length
  return (
    <Modal
      open
      onClose={onClose}
      title={`${title} ${plural(ids.length, 'selected job')}`}
      actions={
        over ? (
          <Button onClick={onClose}>Close</Button>
        ) : (
          <>
            <Button onClick={onClose}>Leave it</Button>
            <Button
              kind={action === 'delete' || action === 'cancel' ? 'danger' : 'primary'}
              disabled={!ready || done !== null}
              onClick={() => void run()}
            >
              {title} {plural(ids.length, 'job')}
            </Button>
          </>
        )
      }
    >
      <div className="grid gap-4">
        <Needs action={action} value={value} setValue={setValue} />
        <p role="status">
          {done === null
            ? `${plural(ids.length, 'job')} ${DOES[action]}`
            : `${count(done)} of ${count(ids.length)} done.`}
        </p>
        {refused.length > 0 && (
          <ul className="list-inside list-disc text-bad">
            {[...new Set(refused)].slice(0, 5).map((words) => (
              <li key={words} className="[overflow-wrap:anywhere]">
                {words}
              </li>
            ))}
          </ul>
        )}
      </div>
    </Modal>
  )
}
