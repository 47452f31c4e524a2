import { useQuery } from '@tanstack/react-query'
import { type ButtonHTMLAttributes, type ReactElement, type ReactNode, useState } from 'react'
import { ApiError, type Change } from '../api/client.ts'
import { me, useChange } from '../api/queries.ts'
import { Modal } from './modal.tsx'
import { Button } from './parts.tsx'

/** Returns whether the viewer may change things. */
export function useMayAct(): boolean {
  return useQuery(me).data?.role === 'operator'
}

/** The reason as a part of a request; an empty one is left out. */
export function why(reason: string): { readonly reason?: string } {
  return reason === '' ? {} : { reason }
}

/** What the server refused, in its own words. */
export function Refused({ error }: { readonly error: Error | null }): ReactElement | null {
  if (error === null) return null
  return (
    <p role="alert" className="rounded-md bg-bad-soft px-3 py-2 [overflow-wrap:anywhere] text-bad">
      {error.message}
      {error instanceof ApiError && error.hint !== undefined && ` ${error.hint}`}
    </p>
  )
}

/** A field with its name above, and what is right to write below. */
export function Field({
  label,
  hint,
  children,
}: {
  readonly label: string
  readonly hint?: ReactNode
  readonly children: ReactNode
}): ReactElement {
  return (
    <div className="grid gap-1">
      <label className="grid gap-1">
        <span className="font-medium">{label}</span>
        {children}
      </label>
      {hint !== undefined && <span className="text-xs text-faint">{hint}</span>}
    </div>
  )
}

/** A button that asks before it changes something. What the server answers, or refuses, shows where it was asked. */
export function Act<T = unknown>({
  label,
  title,
  what,
  change,
  kind = 'plain',
  fields,
  ready = true,
  recorded = true,
  told = () => null,
  ...rest
}: {
  readonly label: string
  /** The question. */
  readonly title: ReactNode
  /** What will happen. */
  readonly what: ReactNode
  readonly change: (reason: string) => Change
  readonly kind?: 'plain' | 'primary' | 'danger' | 'quiet'
  readonly fields?: ReactNode
  readonly ready?: boolean
  /** False: it changes nothing, so that readers may, and nobody asks why. */
  readonly recorded?: boolean
  /** What an answer says: it stays in the dialog. Null: the dialog closes. */
  readonly told?: (answer: T) => ReactNode
} & Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'title'>): ReactElement | null {
  const [open, setOpen] = useState(false)
  const [reason, setReason] = useState('')
  const changing = useChange<T>()
  const mayAct = useMayAct()
  const answer = changing.data === undefined ? null : told(changing.data)
  if (recorded && !mayAct) return null
  const close = (): void => {
    setOpen(false)
    changing.reset()
  }
  return (
    <>
      <Button kind={kind} {...rest} onClick={() => setOpen(true)}>
        {label}
      </Button>
      <Modal
        open={open}
        onClose={close}
        title={title}
        actions={
          <>
            <Button onClick={close}>{answer === null ? 'Leave it' : 'Close'}</Button>
            <Button
              kind={kind === 'danger' ? 'danger' : 'primary'}
              disabled={changing.isPending || !ready}
              onClick={() =>
                changing.mutate(change(reason.trim()), { onSuccess: (found) => told(found) === null && close() })
              }
            >
              {changing.isPending ? 'Working…' : label}
            </Button>
          </>
        }
      >
        <div className="grid gap-4">
          <div className="text-soft [overflow-wrap:anywhere]">{what}</div>
          {fields}
          {recorded && (
            <Field label="Why" hint="Kept in the audit, beside your name. May stay empty.">
              <input
                className="field"
                maxLength={1000}
                value={reason}
                onChange={(event) => setReason(event.target.value)}
              />
            </Field>
          )}
          {answer !== null && <p role="status">{answer}</p>}
          <Refused error={changing.error} />
        </div>
      </Modal>
    </>
  )
}
