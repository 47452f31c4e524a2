// Workflows and machines that the compiler accepts, and lines that it refuses. Nothing here runs: types.test.ts compiles it.
import { input, limit, task } from '../../src/exports/index.ts'
import { again, child, machine, type Startable, workflow } from '../../src/exports/flows.ts'

const openai = limit('openai', { rate: 500, per: '1m' })
const perTenant = limit('openai-by-tenant', { rate: 50, per: '1m', burst: 5 })
const stripe = limit('stripe', { rate: 100, per: '1s' })
const perCustomer = limit('customer', { concurrency: 1 })

interface Order {
  id: string
  tenant: string
  customer: number
  total: number
  placed: Date
  items: { sku: string; grams: number }[]
}
declare const bank: {
  charge(cents: number, key: string, signal: AbortSignal): Promise<{ id: string; at: Date }>
  refund(id: string): Promise<void>
}
const ship = task('ship', input<{ sku: string; grams: number }>(), {
  limits: [limit('carrier', { every: '1s' })],
  run: ({ sku }) => ({ label: `L-${sku}`, on: new Date(0) }),
})
const thank = task('thank', input<{ order: string }>(), { run: () => undefined })

const refund = workflow('refund', input<{ charge: string }>(), {
  run: async ({ charge }, flow) => {
    await flow.step('refund', { limits: [stripe] }, () => bank.refund(charge))
    return { refunded: true }
  },
})
const order = workflow('order', input<Order>(), {
  signals: { approved: input<{ by: string }>(), address: input<{ street: string }>() },
  key: (o) => o.id,
  hold: [perCustomer.by((o) => o.customer)],
  defaults: { retry: { attempts: 5 } },
  run: async (o, flow) => {
    const price = await flow.step('price', () => ({ cents: Math.round(o.total * 100) }))
    const charged = await flow.step(
      'charge',
      { limits: [stripe, perTenant.key(o.tenant)], timeout: '30s' },
      async (step) => bank.charge(price.cents, step.key, step.signal),
    )
    const at: string = charged.at
    if (o.total > 1000) {
      const ok = await flow.signal('approved', { within: '7d' })
      if (ok === null) {
        await flow.child('refund', refund, { charge: charged.id })
        return { state: 'expired' as const, at, by: null, labels: [] }
      }
      const by: string = ok.by
      return { state: 'approved' as const, at, by, labels: [] }
    }
    const parcels = await flow.map('ship', ship, o.items, { onFailure: 'collect' })
    const labels = parcels.flatMap((each) => (each.ok ? [each.value.label] : []))
    await flow.call(
      'thank',
      thank,
      { order: o.id },
      { delay: '1d', priority: 3, timeout: '5s', retry: { attempts: 2 } },
    )
    return { state: 'shipped' as const, at, by: null, labels }
  },
})
/** Each generation remembers nothing of the one before. */
export const poll: Startable<{ feed: string; seen: number }, { total: number }> = workflow(
  'poll',
  input<{ feed: string; seen: number }>(),
  {
    run: async ({ feed, seen }, flow) => {
      const found = await flow.step('fetch', () => seen + feed.length)
      return found > 1_000_000 ? { total: found } : again({ feed, seen: found })
    },
  },
)
/** Each is opaque to the other. */
export async function accepted(): Promise<string> {
  const started = await order.start({
    id: 'o-1',
    tenant: 'acme',
    customer: 7,
    total: 12,
    placed: new Date(0),
    items: [],
  })
  const { state }: { state: 'expired' | 'approved' | 'shipped' } = await started.result()
  await order.signal({ key: 'o-1' }, 'approved', { by: `ann ${state}` }, { once: 'evt_1' })
  const crawled = await crawl.start({ url: 'https://example.org', depth: 0 })
  const { pages, why }: { pages: number; why: string } = await crawled.result()
  return `${why} ${pages}`
}

const crawl = machine('crawl', {
  states: {
    fetch: input<{ url: string; depth: number }>(),
    decide: input<{ pages: number }>(),
    joined: input<{ pages: number }>(),
  },
  signals: { stop: input<{ reason: string }>(), more: input<{ urls: string[] }>() },
  first: 'fetch',
  result: input<{ pages: number; why: string }>(),
  // The type of a state needs no annotation by a path, nor in a function beside its limit.
  limits: {
    fetch: [
      openai,
      { limit: perTenant, by: 'url' },
      { limit: stripe, by: ({ url }) => url.length, weight: ({ depth }) => depth + 1 },
      perCustomer.by((state: { url: string }) => state.url),
    ],
  },
  retry: { attempts: 3 },
  run: {
    fetch: ({ url, depth }, to) => {
      if (depth === 1) return to.retry({ delay: '10s' })
      return depth > 3
        ? to.wait(['stop', 'more'], 'decide', { pages: 1 }, { within: '3d', limits: [perTenant.key('crawl')] })
        : to.join([child(refund, { charge: url })], 'joined', { pages: depth })
    },
    decide: ({ pages }, to) => {
      for (const { name, payload } of to.signals) {
        if (name === 'stop') return to.done({ pages, why: payload.reason })
        const [url] = payload.urls
        if (url !== undefined)
          return to.next('fetch', { url, depth: 0 }, { limits: [perTenant.by((next) => next.url, { weight: 2 })] })
      }
      return to.fail(new Error('no answer'))
    },
    joined: ({ pages }, to) =>
      to.done({ pages: pages + to.children.filter((each) => each.ok).length, why: 'all done' }),
  },
})

const a = input<{ n: number }>()
const b = input<{ s: string }>()

/** Each of these is refused, for the reason that the line before says. */
export function refused(): void {
  // @ts-expect-error TS2345: a signal that is not declared
  void order.signal('id', 'aproved', { by: 'ann' })
  // @ts-expect-error TS2353: the payload of another signal
  void order.signal('id', 'approved', { street: 'x' })
  // @ts-expect-error TS2739, or TS2345: an input without its fields
  void order.start({ id: 'o-1' })
  workflow('w', input<{ tenant: string }>(), {
    run: async (given, flow) => {
      const got = await flow.step('now', () => ({ at: new Date(0) }))
      // @ts-expect-error TS2339: a Date is a text once it was stored
      void got.at.getTime
      // @ts-expect-error TS2353: the input of another task
      await flow.call('ship', ship, { order: 'x' })
      // @ts-expect-error TS2339: a limit keyed by what the input lacks
      await flow.call('thank', thank, { order: 'x' }, { limits: [perTenant.by((i) => String(i.tenant))] })
      // @ts-expect-error TS2353: a unique key of a call, which the flow makes once
      await flow.call('thank', thank, { order: 'x' }, { unique: 'x' })
      // @ts-expect-error TS2353: a transaction of the caller's own for a child
      await flow.child('refund', refund, { charge: 'x' }, { tx: {} })
      // @ts-expect-error TS2739: a list of inputs of another type
      await flow.map('ship', ship, [given])
      // @ts-expect-error TS2345: a signal of a workflow without signals
      await flow.signal('approved')
      // @ts-expect-error TS2353: a step's option that it cannot have
      await flow.step('x', { within: '1s' }, () => 1)
      // @ts-expect-error TS2339: a map that collects answers no bare values
      void (await flow.map('ship', ship, [], { onFailure: 'collect' }))[0]?.label
    },
  })
  // @ts-expect-error TS2322: begins again with another input
  workflow('w', input<{ tenant: string }>(), { run: async () => again({ customer: 1 }) })
  // @ts-expect-error TS2322: may begin again with another input
  workflow('w', input<{ tenant: string }>(), { run: async (o) => (o.tenant === '' ? 1 : again({ n: 1 })) })
  // @ts-expect-error TS2339: held by a field that the input lacks
  workflow('w', input<{ tenant: string }>(), { hold: [perCustomer.by((o) => String(o.customer))], run: async () => 1 })
  machine('m', {
    states: { a, b },
    first: 'a',
    run: {
      // @ts-expect-error TS2353: the state of another step
      a: ({ n }, to) => to.next('b', { n }),
      // @ts-expect-error TS2345: a step that is not there
      b: ({ s }, to) => to.next('c', { s }),
    },
  })
  // @ts-expect-error TS2741: a state without its code
  machine('m', { states: { a, b }, first: 'a', run: { a: (_, to) => to.done() } })
  // @ts-expect-error TS2322: a first step that is not there
  machine('m', { states: { a }, first: 'z', run: { a: (_, to) => to.done() } })
  machine('m', {
    states: { a },
    first: 'a',
    // @ts-expect-error TS2322: a limit keyed by a path that the state lacks
    limits: { a: [{ limit: openai, by: 's' }] },
    run: { a: (_, to) => to.done() },
  })
  machine('m', {
    states: { a },
    first: 'a',
    // @ts-expect-error TS2339: a limit keyed by a function of what the state lacks
    limits: { a: [{ limit: openai, by: ({ s }) => String(s) }] },
    run: { a: (_, to) => to.done() },
  })
  // @ts-expect-error TS2322: a wait for a signal that the machine lacks
  machine('m', { states: { a }, first: 'a', run: { a: (state, to) => to.wait(['go'], 'a', state) } })
  machine('m', {
    states: { a },
    signals: { go: a },
    first: 'a',
    // @ts-expect-error TS2353: a delay of a wait
    run: { a: (state, to) => to.wait(['go'], 'a', state, { delay: '1s' }) },
  })
  // @ts-expect-error TS2345: a result of another type
  machine('m', { states: { a }, first: 'a', result: input<number>(), run: { a: (_, to) => to.done('text') } })
  // @ts-expect-error TS2353: the input of another workflow's child
  child(refund, { order: 'x' })
}
