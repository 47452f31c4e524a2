/** Limits, and the paths of their keys, are checked against the input. Compiled by `npm run types`; never run. */
import { z } from 'zod'
import { input, limit, Sluice, task } from '../../src/exports/index.ts'

const crm = limit('crm', { rate: 15, per: '1m' })
interface Item {
  readonly tenant: string
  readonly config: { readonly provider?: string | null; readonly retries: number; readonly debug: boolean }
  readonly items: readonly { readonly id: number }[]
  readonly region?: 'eu' | 'us'
  readonly estimate: number
}
const item = input<Item>()
const run = (): number => 1

// taken: at any depth, in lists, optional, with a weight by the input
task('a', item, { limits: [crm.by('tenant'), crm.by('config.provider'), crm.by('config.retries')], run })
task('b', item, { limits: [crm.by('items.0.id'), crm.by('region')], fairKey: 'config.provider', run })
task('c', item, { limits: [crm.by('tenant', { weight: (each) => each.estimate })], run })
task('c2', item, { limits: [crm.by('tenant', { weight: 3 })], run })
task('d', item, { limits: [{ rate: 1, per: '1s', by: 'config.provider', weight: (each) => each.estimate }], run })
task('e', z.object({ tenant: z.string(), more: z.unknown() }), { limits: [crm.by('tenant')], run })
task('f', input<Record<string, string>>(), { limits: [crm.by('anything')], run })
const provider = crm.by('config.provider')
task('g', item, { limits: [provider], run })
task('h', { limits: [crm.by('tenant')], run })
const anyPath: string = 'known.at.run.time'
task('i', item, { limits: [crm.by(anyPath)], run })
new Sluice({ store: 'sqlite::memory:', tasks: [], queues: { default: { limits: [crm.by('tenant'), crm] } } })

// a spacing stands beside a rate or a window
limit('y', { rate: 1, per: '1s', every: '100ms' })
limit('y', { window: 'fixed', max: 1, per: '1s', every: '100ms', concurrency: 2 })

// refused
// @ts-expect-error not beside permits alone with a period
limit('y', { concurrency: 2, per: '1s' })
// @ts-expect-error no such field
task('x', item, { limits: [crm.by('tennant')], run })
// @ts-expect-error no such field below
task('x', item, { limits: [crm.by('config.provder')], run })
// @ts-expect-error an object is not a key
task('x', item, { limits: [crm.by('config')], run })
// @ts-expect-error a truth value is not a key
task('x', item, { limits: [crm.by('config.debug')], run })
// @ts-expect-error beyond a text there is nothing
task('x', item, { limits: [crm.by('tenant.id')], run })
// @ts-expect-error no such field in the items
task('x', item, { limits: [crm.by('items.0.name')], run })
// @ts-expect-error no such field, inline
task('x', item, { limits: [{ rate: 1, per: '1s', by: 'tennant' }], run })
// @ts-expect-error no such field to take turns by
task('x', item, { fairKey: 'tennant', run })
// @ts-expect-error a shared use by path wants its path
task('x', input<{ tenant: string }>(), { limits: [provider], run })
// @ts-expect-error the weight reads what the input does not have
task('x', item, { limits: [crm.by('tenant', { weight: (each) => each.estimated })], run })
