import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import type { ReactElement } from 'react'
import { audit } from '../api/queries.ts'
import type { AuditEntry } from '../api/types.ts'
import type { Search } from '../app/router.tsx'
import { At, Card, Empty, PageHead } from '../ui/parts.tsx'
import { Loaded } from '../ui/states.tsx'
import { type Column, Table } from '../ui/table.tsx'

const COLUMNS: readonly Column<AuditEntry>[] = [
  { id: 'at', head: 'When', cell: ({ at }) => <At at={at} /> },
  { id: 'who', head: 'Who', cell: ({ who }) => <span title={who}>{who}</span> },
  { id: 'action', head: 'Did what', cell: ({ action }) => <code className="text-xs">{action}</code> },
  { id: 'subject', head: 'To what', cell: ({ subject }) => <span title={subject}>{subject}</span> },
  {
    id: 'reason',
    head: 'Why',
    className: 'max-md:hidden',
    cell: ({ reason }) =>
      reason === null ? <span className="text-faint">–</span> : <span title={reason}>{reason}</span>,
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
  {
    id: 'from',
    head: 'From',
    right: true,
    className: 'max-xl:hidden',
    cell: ({ from }) => from ?? <span className="text-faint">–</span>,
  },
]

/** Who changed what, when and why. */
export function AuditPage(): ReactElement {
  const search: Search = useSearch({ strict: false })
  const navigate = useNavigate()
  const query = useQuery(audit({ who: search['who'], action: search['action'], size: 200 }))
  const set = (name: string, value: string): void =>
    void navigate({ to: '.', search: (before: Search) => ({ ...before, [name]: value || undefined }), replace: true })
  return (
    <>
      <PageHead
        title="Audit"
        sub="Who changed what, when and why. Kept for 90 days."
        actions={
          <>
            <input
              type="search"
              className="field w-36"
              placeholder="who"
              aria-label="Who"
              defaultValue={search['who']}
              onChange={(event) => set('who', event.target.value)}
            />
            <input
              className="field w-44"
              placeholder="did what"
              aria-label="Did what"
              defaultValue={search['action']}
              onChange={(event) => set('action', event.target.value)}
            />
          </>
        }
      />
      <Card flush>
        <Loaded query={query}>
          {(rows) =>
            rows.length === 0 ? (
              <Empty title="Nothing was changed">
                What people do here, on the command line's server and over the API is kept here.
              </Empty>
            ) : (
              <Table name="Audit" columns={COLUMNS} rows={rows} id={({ id }) => id} />
            )
          }
        </Loaded>
      </Card>
    </>
  )
}
