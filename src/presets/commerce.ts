/** Stripe, Shopify, Amazon's Selling Partner API, Xero and Klaviyo. */
import { bucket, type Preset, preset, type PresetLimit, within } from './preset.ts'
import { page } from './sources.ts'

/** Stripe: one budget for the account, and one for each endpoint. */
export const stripe: Preset<'live' | 'sandbox', 'account' | 'endpoint'> = preset(
  {
    name: 'stripe',
    title: 'Stripe API',
    sources: [page('https://docs.stripe.com/rate-limits?locale=ja-JP'), page('https://docs.stripe.com/rate-limits')],
    headers: [],
    refusal: { status: [429], wait: [], otherwise: '1s' },
    note: 'Some endpoints have other limits, such as 20 reads and 20 writes a second of the Files API.',
  },
  {
    live: {
      account: { policy: within(100, '1s'), key: 'the Stripe account' },
      endpoint: { policy: within(25, '1s'), key: 'the Stripe account and the endpoint' },
    },
    sandbox: {
      account: { policy: within(25, '1s'), key: 'the Stripe account' },
      endpoint: { policy: within(25, '1s'), key: 'the Stripe account and the endpoint' },
    },
  },
)

const SHOPIFY_KEY = 'the app and the store'
/** The header tells the level of a bucket that leaks all the time. */
const LEAKING = { calibrate: { from: 'headers', reset: 'refill' } } as const

/** Shopify's REST Admin API, by the plan of the store. */
export const shopify: Preset<'standard' | 'advanced' | 'plus', 'calls'> = preset(
  {
    name: 'shopify',
    title: 'Shopify REST Admin API',
    sources: [
      page('https://shopify.dev/docs/api/admin-rest/usage/rate-limits'),
      page('https://shopify.dev/docs/api/usage/rate-limits'),
      page('https://skills.sh/jeremylongshore/claude-code-plugins-plus-skills/shopify-rate-limits', '2026-03-26'),
    ],
    headers: ['x-shopify-shop-api-call-limit'],
    refusal: { status: [429], wait: ['retry-after'] },
    note: 'Shopify calls this API legacy. Its bucket is larger than a second of calls; the header tells how large.',
  },
  {
    standard: { calls: { policy: bucket('2/s', LEAKING), key: SHOPIFY_KEY } },
    advanced: { calls: { policy: bucket('4/s', LEAKING), key: SHOPIFY_KEY } },
    plus: { calls: { policy: bucket('20/s', LEAKING), key: SHOPIFY_KEY } },
  },
)

/** Shopify's GraphQL Admin API, which counts the calculated cost of queries. */
export const shopifyGraphql: Preset<'standard' | 'advanced' | 'plus' | 'enterprise', 'points'> = preset(
  {
    name: 'shopify-graphql',
    title: 'Shopify GraphQL Admin API',
    sources: [
      page('https://shopify.dev/docs/apps/build/apis/graphql-admin/rate-limits'),
      page('https://community.shopify.com/t/throttled/254776'),
    ],
    headers: [],
    refusal: { status: [200, 429], wait: [], mark: 'THROTTLED', otherwise: '1s' },
    note: 'Each answer tells its real cost: correct the estimate with ctx.charge.',
  },
  {
    standard: { points: points(100) },
    advanced: { points: points(200) },
    plus: { points: points(1000) },
    enterprise: { points: points(2000) },
  },
)

function points(perSecond: number): PresetLimit {
  return { policy: bucket(`${perSecond}/s`), key: SHOPIFY_KEY, unit: 'points of the calculated query cost' }
}

const SELLER = 'the selling partner and the application'

function operation(policy: string): { readonly calls: PresetLimit } {
  return { calls: { policy: bucket(policy), key: SELLER } }
}

/** Amazon's Selling Partner API: the default usage plans of some operations. */
export const amazonSellingPartner: Preset<
  | 'getOrders'
  | 'getFulfillmentPreview'
  | 'createFulfillmentOrder'
  | 'listAllFulfillmentOrders'
  | 'deliveryOffers'
  | 'batchInventory',
  'calls'
> = preset(
  {
    name: 'amazon-sp-api',
    title: 'Amazon Selling Partner API',
    sources: [
      page('https://github.com/amzn/selling-partner-api-models/blob/main/models/orders-api-model/ordersV0.json'),
      page('https://developer-docs.amazon.com/sp-api/docs/usage-plans-and-rate-limits'),
      page('https://developer-docs.amazon.com/sp-api/docs/fulfillment-outbound-api-rate-limits'),
      page('https://developer-docs.amazon.com/sp-api/docs/external-fulfillment-apis-rate-limits'),
    ],
    headers: ['x-amzn-ratelimit-limit'],
    refusal: { status: [429], wait: [] },
    byOperation: true,
    note: 'The header tells the rate of the operation in calls a second, where it may differ from the default.',
  },
  {
    getOrders: operation('1/m burst 20'),
    getFulfillmentPreview: operation('2/s burst 30'),
    createFulfillmentOrder: operation('2/s burst 30'),
    listAllFulfillmentOrders: operation('2/s burst 30'),
    deliveryOffers: operation('10/s burst 30'),
    batchInventory: operation('50/s burst 100'),
  },
)

const TENANT = 'the connected organisation (tenant)'

/** The headers tell what is left and no reset, so that the limit follows the level. */
function xeroBudget(budget: string, direction: 'down' | 'both' = 'down'): Pick<PresetLimit['policy'], 'calibrate'> {
  return { calibrate: { from: 'headers', budget, direction, reset: 'refill' } }
}

/** Xero's accounting API: three limits for each connected organisation, and one for the app. */
export const xero: Preset<'standard', 'minute' | 'day' | 'concurrent' | 'app'> = preset(
  {
    name: 'xero',
    title: 'Xero API',
    sources: [
      page('https://developer.xero.com/faq/limits'),
      page(
        'https://raw.githubusercontent.com/api-evangelist/xero/refs/heads/main/rate-limits/xero-rate-limits.yml',
        '2026-05-05',
      ),
    ],
    headers: ['x-minlimit-remaining', 'x-daylimit-remaining', 'x-appminlimit-remaining'],
    refusal: { status: [429], wait: ['retry-after'] },
  },
  {
    standard: {
      minute: { policy: within(60, '1m', xeroBudget('minute')), key: TENANT },
      day: { policy: within(5000, '1d', xeroBudget('day', 'both')), key: TENANT },
      concurrent: { policy: { concurrency: 5 }, key: TENANT },
      app: { policy: within(10_000, '1m', xeroBudget('app-minute')), key: null },
    },
  },
)

function klaviyoTier(burst: number, steady: number): Preset<string, 'burst' | 'steady'>['plans'][string] {
  const key = 'the account and the endpoint'
  return {
    burst: { policy: within(burst, '1s'), key },
    steady: { policy: within(steady, '1m', { calibrate: 'headers' }), key },
  }
}

/** Klaviyo's API: a second and a minute, by the size of the endpoint. */
export const klaviyo: Preset<'xs' | 's' | 'm' | 'l' | 'xl', 'burst' | 'steady'> = preset(
  {
    name: 'klaviyo',
    title: 'Klaviyo API',
    sources: [
      page('https://developers.klaviyo.com/en/docs/rate_limits_and_error_handling'),
      page('https://www.skills.sh/jeremylongshore/tons-of-skills-marketplace/klaviyo-rate-limits'),
    ],
    headers: ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset'],
    refusal: { status: [429], wait: ['retry-after'] },
    byOperation: true,
    note: 'The reference of each endpoint names its size. The headers report the minute.',
  },
  {
    xs: klaviyoTier(1, 15),
    s: klaviyoTier(3, 60),
    m: klaviyoTier(10, 150),
    l: klaviyoTier(75, 700),
    xl: klaviyoTier(350, 3500),
  },
)
