import { useInfiniteQuery } from '@tanstack/react-query'
import type { ReactElement } from 'react'
import { audit } from '../api/queries.ts'
import type { AuditEntry } from '../api/types.ts'
import { TextFilter, useFilters } from '../ui/filters.tsx'
import { ListPage } from '../ui/list.tsx'
import { At, Empty, None } from '../ui/parts.tsx'
import type { Column } from '../ui/table.tsx'

const COLUMNS: readonly Column<AuditEntry>[] = [
  { id: 'at', head: 'When', cell: ({ at }) => <At at={at} /> },
  { id: 'who', head: 'Who', cell: ({ who }) => <span title={who}>{who}</span> },
  { id: 'action', head: 'Did what', cell: ({ action }) => <code className="text-xs">{action}</code> },
  { id: 'subject', head: 'To what', cell: ({ subject }) => <span title={subject}>{subject}</span> },
  {
    id: 'reason',
    head: 'Why',
    className: 'max-md:hidden',
    cell: ({ reason }) => (reason === null ? <None /> : <span title={reason}>{reason}</span>),
  },
  {
    id: 'request',
    head: 'Request',
    className: 'max-lg:hidden w-full',
    cell: ({ request }) => {
      const text = request === null || request === undefined ? '' : JSON.stringify(request)
      return (
        <span className="font-mono text-xs text-soft" title={text}>
          {text}
        </span>
      )
    },
  },
  { id: 'from', head: 'From', right: true, className: 'max-xl:hidden', cell: ({ from }) => from ?? <None /> },
]

/** Who changed what, when and why. */
export function AuditPage(): ReactElement {
  const [{ who, action }] = useFilters()
  const query = useInfiniteQuery(audit({ ...(who && { who }), ...(action && { action }) }))
  const isFiltered = who !== undefined || action !== undefined
  return (
    <ListPage
      title="Audit"
      sub="Who changed what, when and why. Kept for 90 days."
      actions={
        <>
          <TextFilter name="who" label="Who" className="w-36" isSearch />
          <TextFilter name="action" label="Did what" className="w-44" />
        </>
      }
      query={query}
      more={query}
      rowsOf={({ pages }) => pages.flatMap(({ entries }) => entries)}
      empty={() =>
        isFiltered ? (
          <Empty title="No change matches">Both filters take the whole name, as the list shows it.</Empty>
        ) : (
          <Empty title="Nothing was changed">What people change here or over the API is kept here.</Empty>
        )
      }
      columns={COLUMNS}
      id={({ id }) => String(id)}
    />
  )
}
