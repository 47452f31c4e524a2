import { Link } from '@tanstack/react-router'
import type { ReactElement } from 'react'
import { pathKey } from '../api/client.ts'
import type { Bucket, Override } from '../api/types.ts'
import { At, Badge, Bar } from './parts.tsx'
import { count } from './words.ts'

/** `crm · acme`, as a way to the page of that budget. */
export function BudgetLink({ limit, name }: { readonly limit: string; readonly name?: string | null }): ReactElement {
  const className = 'font-medium link'
  const words = name === undefined || name === null ? limit : `${limit} · ${name === '' ? '(empty)' : name}`
  if (name === undefined)
    return (
      <Link to="/limits/$limit" params={{ limit }} className={className} title={words}>
        {words}
      </Link>
    )
  return (
    <Link to="/limits/$limit/keys/$key" params={{ limit, key: pathKey(name) }} className={className} title={words}>
      {words}
    </Link>
  )
}

/** What is used of a budget, as a bar and in numbers. */
export function Used({ bucket, name }: { readonly bucket: Bucket; readonly name: string }): ReactElement {
  return (
    <div className="flex min-w-40 items-center gap-3">
      <Bar used={bucket.used} max={bucket.capacity} label={`Budget used of ${name}`} />
      <span className="numbers shrink-0 text-xs text-soft" title="units used now of the budget">
        {count(bucket.used)} / {count(bucket.capacity)}
      </span>
    </div>
  )
}

/** What is changed by hand, with until when. */
export function InForce({ overrides }: { readonly overrides: readonly Override[] }): ReactElement | null {
  const inForce = overrides.filter(({ ended }) => ended === null)
  if (inForce.length === 0) return null
  return (
    <span className="inline-flex flex-wrap gap-1">
      {inForce.slice(0, 2).map((each) => (
        <Badge key={`${each.kind} ${each.key} ${each.since}`} tone={each.kind === 'pause' ? 'bad' : 'violet'}>
          {each.kind === 'pause' ? 'paused' : 'override'}
        </Badge>
      ))}
    </span>
  )
}

/** An override in words: `rate 5, per 1s`. */
function changeWords(change: Override['change']): string {
  if (change === null) return 'nothing starts'
  return Object.entries(change)
    .map(([name, value]) => `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ')
}

/** Who changed what, why and until when. */
export function Overrides({ overrides }: { readonly overrides: readonly Override[] }): ReactElement {
  return (
    <ul className="divide-y divide-line">
      {overrides.map((each) => (
        <li key={`${each.kind} ${each.key} ${each.since}`} className="grid gap-0.5 px-4 py-2.5">
          <div className="flex flex-wrap items-center gap-2">
            <Badge tone={each.ended !== null ? 'plain' : each.kind === 'pause' ? 'bad' : 'violet'}>{each.kind}</Badge>
            <span className="[overflow-wrap:anywhere]">{changeWords(each.change)}</span>
            {each.key !== null && <span className="text-soft [overflow-wrap:anywhere]">for {each.key}</span>}
          </div>
          <div className="text-xs text-faint [overflow-wrap:anywhere]">
            <At at={each.since} /> by {each.by ?? 'someone'}
            {each.ended !== null ? (
              <>
                , ended <At at={each.ended} /> by {each.endedBy ?? 'its time'}
              </>
            ) : each.until !== null ? (
              <>
                , until <At at={each.until} />
              </>
            ) : (
              ', until it is cleared'
            )}
            {each.reason !== null && <> · “{each.reason}”</>}
          </div>
        </li>
      ))}
    </ul>
  )
}
