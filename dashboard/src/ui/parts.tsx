import type { ButtonHTMLAttributes, ReactElement, ReactNode } from 'react'
import { useNow } from './clock.ts'
import { clockTime, duration, exactTime } from './words.ts'

type Kind = 'plain' | 'primary' | 'danger' | 'quiet'
const KINDS: Record<Kind, string> = {
  plain: 'border border-line-strong bg-surface text-ink hover:bg-sunken',
  primary: 'bg-accent text-accent-ink hover:opacity-90',
  danger: 'border border-bad/50 bg-bad-soft text-bad hover:border-bad',
  quiet: 'text-soft hover:bg-sunken hover:text-ink',
}

export function Button({
  kind = 'plain',
  className = '',
  ...rest
}: ButtonHTMLAttributes<HTMLButtonElement> & { readonly kind?: Kind }): ReactElement {
  return (
    <button
      type="button"
      {...rest}
      className={`inline-flex h-9 shrink-0 items-center justify-center gap-1.5 rounded-md px-3 font-medium whitespace-nowrap disabled:cursor-not-allowed disabled:opacity-50 ${KINDS[kind]} ${className}`}
    />
  )
}

export type Tone = 'plain' | 'good' | 'warn' | 'bad' | 'info' | 'violet' | 'accent'
const TONES: Record<Tone, string> = {
  plain: 'bg-sunken text-soft ring-line',
  good: 'bg-good-soft text-good ring-transparent',
  warn: 'bg-warn-soft text-warn ring-transparent',
  bad: 'bg-bad-soft text-bad ring-transparent',
  info: 'bg-info-soft text-info ring-transparent',
  violet: 'bg-violet-soft text-violet ring-transparent',
  accent: 'bg-accent-soft text-accent ring-transparent',
}

export function Badge({
  tone = 'plain',
  wraps = false,
  children,
}: {
  readonly tone?: Tone
  /** For a text of any length. */
  readonly wraps?: boolean
  readonly children: ReactNode
}): ReactElement {
  return (
    <span
      className={`inline-flex items-center gap-1 rounded px-1.5 py-px text-xs font-medium ring-1 ring-inset ${wraps ? '[overflow-wrap:anywhere]' : 'whitespace-nowrap'} ${TONES[tone]}`}
    >
      {children}
    </span>
  )
}

const STATES: Record<string, Tone> = {
  waiting: 'warn',
  available: 'warn',
  blocked: 'violet',
  pending: 'violet',
  scheduled: 'violet',
  retryable: 'bad',
  active: 'info',
  running: 'info',
  completed: 'good',
  discarded: 'bad',
  failed: 'bad',
  cancelled: 'plain',
  held: 'violet',
  paused: 'violet',
  done: 'good',
  sleeping: 'violet',
  awaiting: 'violet',
  skipped: 'plain',
}

export function State({ state }: { readonly state: string }): ReactElement {
  return <Badge tone={STATES[state] ?? 'plain'}>{state}</Badge>
}

/** A part of a page with a heading. */
export function Card({
  title,
  hint,
  actions,
  children,
  flush = false,
}: {
  readonly title?: ReactNode
  readonly hint?: ReactNode
  readonly actions?: ReactNode
  readonly children: ReactNode
  /** The content goes to the edges, as a table does. */
  readonly flush?: boolean
}): ReactElement {
  return (
    <section className="card min-w-0">
      {title !== undefined && (
        <header className="flex min-h-11 flex-wrap items-center justify-between gap-x-4 gap-y-1 border-b border-line px-4 py-2">
          <h2 className="flex items-baseline gap-2 font-semibold">
            {title}
            {hint !== undefined && <span className="text-xs font-normal text-faint">{hint}</span>}
          </h2>
          {actions}
        </header>
      )}
      <div className={flush ? '' : 'p-4'}>{children}</div>
    </section>
  )
}

/** The head of a page: what it shows, and what one can do. */
export function PageHead({
  title,
  sub,
  actions,
}: {
  readonly title: ReactNode
  readonly sub?: ReactNode
  readonly actions?: ReactNode
}): ReactElement {
  return (
    <div className="mb-4 flex flex-wrap items-end [.grid>&]:mb-0 justify-between gap-x-4 gap-y-3">
      <div className="min-w-0">
        <h1 className="text-xl font-semibold tracking-tight [overflow-wrap:anywhere]">{title}</h1>
        {sub !== undefined && <div className="mt-0.5 text-soft [overflow-wrap:anywhere]">{sub}</div>}
      </div>
      {actions !== undefined && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
    </div>
  )
}

/** The sign that there is nothing. */
export function None(): ReactElement {
  return <span className="text-faint">–</span>
}

/** A time in the viewer's zone; the exact one shows on hover. */
export function At({ at }: { readonly at: string | null | undefined }): ReactElement {
  const now = useNow()
  if (at === null || at === undefined) return <None />
  return (
    <time dateTime={at} title={exactTime(Date.parse(at))} className="numbers whitespace-nowrap">
      {clockTime(Date.parse(at), now)}
    </time>
  )
}

/** How long ago, counting. */
export function Ago({ at }: { readonly at: string | null | undefined }): ReactElement {
  const now = useNow()
  if (at === null || at === undefined) return <None />
  const away = now - Date.parse(at)
  return (
    <time dateTime={at} title={exactTime(Date.parse(at))} className="numbers whitespace-nowrap">
      {away < -1000 ? `in ${duration(-away)}` : away < 1000 ? 'now' : `${duration(away)} ago`}
    </time>
  )
}

/** Counts down to a time, in full view. */
export function CountDown({
  at,
  none = '–',
}: {
  readonly at: string | null | undefined
  readonly none?: string
}): ReactElement {
  const now = useNow()
  if (at === null || at === undefined) return <span className="text-faint">{none}</span>
  const left = Date.parse(at) - now
  return (
    <time dateTime={at} title={exactTime(Date.parse(at))} className="numbers whitespace-nowrap">
      {left <= 0 ? 'now' : `in ${duration(left)}`}
    </time>
  )
}

/** What a list shows when it has nothing, and what to do about it. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ReactNode }): ReactElement {
  return (
    <div className="flex flex-col items-center gap-1 px-6 py-12 text-center">
      <p className="font-medium">{title}</p>
      {children !== undefined && <div className="max-w-prose text-soft">{children}</div>}
    </div>
  )
}

/** One figure with its name and unit. */
export function Figure({
  name,
  value,
  unit,
  tone,
}: {
  readonly name: string
  readonly value: ReactNode
  readonly unit?: ReactNode
  readonly tone?: 'bad' | 'warn'
}): ReactElement {
  const colour = tone === 'bad' ? 'text-bad' : tone === 'warn' ? 'text-warn' : ''
  return (
    <div className="card min-w-0 px-4 py-3">
      <div className="text-xs text-faint">{name}</div>
      <div className={`numbers mt-0.5 text-xl font-semibold tracking-tight ${colour}`}>
        {value} {unit !== undefined && <span className="text-sm font-normal text-soft">{unit}</span>}
      </div>
    </div>
  )
}

/** How much of a budget is used, or how much of some work is done; the text beside it says the numbers. */
export function Bar({
  used,
  max,
  label,
  isWork = false,
}: {
  readonly used: number
  readonly max: number
  readonly label: string
  /** A full bar is good. */
  readonly isWork?: boolean
}): ReactElement {
  const share = max > 0 ? Math.min(1, Math.max(0, used / max)) : 0
  const colour = isWork
    ? 'bg-(--plot-1)'
    : share >= 0.999
      ? 'bg-(--plot-5)'
      : share >= 0.8
        ? 'bg-(--plot-2)'
        : 'bg-(--plot-1)'
  return (
    <div
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={max}
      aria-valuenow={Math.min(max, Math.max(0, used))}
      className="h-2 w-full min-w-16 overflow-hidden rounded-full bg-sunken ring-1 ring-line ring-inset"
    >
      <div
        className={`h-full rounded-full ${colour} transition-[width] duration-200`}
        style={{ width: `${share * 100}%` }}
      />
    </div>
  )
}
