import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactElement } from 'react'
import { bulks } from '../api/queries.ts'
import { FilterWords } from '../ui/bulk-bar.tsx'
import { BulkState } from '../ui/bulk-progress.tsx'
import { At, Card, Empty, PageHead } from '../ui/parts.tsx'
import { Loaded } from '../ui/states.tsx'

/** Changes of all jobs that match a filter: what runs, and what was done. */
export function BulksPage(): ReactElement {
  return (
    <>
      <PageHead title="Bulk changes" sub="What was changed on all jobs that matched, by whom, and how far it is." />
      <Loaded query={useQuery(bulks)}>
        {(rows) =>
          rows.length === 0 ? (
            <Card>
              <Empty title="Nothing was changed in bulk">
                Filter{' '}
                <Link to="/jobs" className="link">
                  jobs
                </Link>
                , select all that match, and choose a change.
              </Empty>
            </Card>
          ) : (
            <ul className="grid gap-3">
              {rows.map((bulk) => (
                <li key={bulk.id}>
                  <Card
                    title={<span className="capitalize">{bulk.action}</span>}
                    hint={
                      <>
                        by {bulk.by ?? 'someone'}, <At at={bulk.createdAt} />
                      </>
                    }
                  >
                    <div className="grid gap-3">
                      <FilterWords filter={bulk.filter} />
                      {bulk.reason !== null && <p className="text-soft [overflow-wrap:anywhere]">“{bulk.reason}”</p>}
                      <BulkState bulk={bulk} />
                    </div>
                  </Card>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </>
  )
}
