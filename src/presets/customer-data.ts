/** HubSpot, Salesforce, Zendesk, Intercom and Freshdesk. */
import { type Preset, preset, type PresetLimit, within } from './preset.ts'
import { page } from './sources.ts'

const ACCOUNT = 'the HubSpot account'

function hubspotPlan(burst: number, daily: number): Preset<string, 'burst' | 'daily'>['plans'][string] {
  const budget = (name: string): Pick<PresetLimit['policy'], 'calibrate'> => ({
    calibrate: { from: 'headers', budget: name, direction: 'both', reset: 'refill' },
  })
  return {
    burst: { policy: within(burst, '10s'), key: ACCOUNT },
    daily: { policy: within(daily, '1d', budget('daily')), key: ACCOUNT },
  }
}

/** HubSpot, for private apps: ten seconds and a day. */
export const hubspot: Preset<
  'professional' | 'enterprise' | 'professional-increase' | 'enterprise-increase',
  'burst' | 'daily'
> = preset(
  {
    name: 'hubspot',
    title: 'HubSpot API, private apps',
    sources: [
      page('https://developers.hubspot.com/changelog/increasing-our-api-limits'),
      page(
        'https://developers.hubspot.com/changelog/2018-11-06-rate-limit-information-headers-will-be-included-in-http-responses',
        '2018-11-06',
      ),
    ],
    headers: ['x-hubspot-ratelimit-daily', 'x-hubspot-ratelimit-daily-remaining'],
    refusal: { status: [429], wait: [], otherwise: '10s' },
    note: 'The plans with -increase have one capacity pack, "API Limit Increase".',
  },
  {
    professional: hubspotPlan(190, 650_000),
    enterprise: hubspotPlan(190, 1_000_000),
    'professional-increase': hubspotPlan(250, 1_650_000),
    'enterprise-increase': hubspotPlan(250, 2_000_000),
  },
)

/** Salesforce: calls of 20 s or longer at once. Its daily allocation depends on the licences of the org. */
export const salesforce: Preset<'production' | 'developer', 'long'> = preset(
  {
    name: 'salesforce',
    title: 'Salesforce Platform REST and SOAP API',
    sources: [
      page(
        'https://developer.salesforce.com/docs/platform/salesforce-app-limits-cheatsheet/guide/salesforce-app-limits-platform-api.html',
      ),
      page('https://ayaninsights.com/?p=8312'),
      page('https://gist.github.com/ndabAP/2ae90f3b871403d822ec2de0bcffb5b0', '2021-01-26'),
    ],
    headers: ['sforce-limit-info'],
    refusal: { status: [403], wait: [], mark: 'REQUEST_LIMIT_EXCEEDED' },
    note: 'Shorter calls have no bound at once. Sandboxes have the limit of production.',
  },
  {
    production: { long: { policy: { concurrency: 25 }, key: 'the org', unit: 'calls of 20 s or longer' } },
    developer: { long: { policy: { concurrency: 5 }, key: 'the org', unit: 'calls of 20 s or longer' } },
  },
)

function perAccount(perMinute: number, calibrated: boolean): { readonly requests: PresetLimit } {
  return {
    requests: { policy: within(perMinute, '1m', calibrated ? { calibrate: 'headers' } : {}), key: 'the account' },
  }
}

/** Zendesk's ticketing API, by the plan of the account. */
export const zendesk: Preset<'team' | 'growth' | 'professional' | 'enterprise' | 'high-volume', 'requests'> = preset(
  {
    name: 'zendesk',
    title: 'Zendesk Support API',
    sources: [
      page(
        'https://support.zendesk.com/hc/ja/articles/4408836402074-Managing-API-usage-in-your-Zendesk-account?page=1',
      ),
      page('https://developer.zendesk.com/api-reference/introduction/rate-limits'),
      page(
        'https://developer.zendesk.com/documentation/api-basics/best-practices/best-practices-for-avoiding-rate-limiting',
      ),
    ],
    headers: ['x-rate-limit', 'x-rate-limit-remaining', 'ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset'],
    refusal: { status: [429], wait: ['retry-after'] },
    note: 'Enterprise Plus includes high-volume, an add-on for the others. The Help Center has a budget of its own.',
  },
  {
    team: perAccount(200, true),
    growth: perAccount(400, true),
    professional: perAccount(400, true),
    enterprise: perAccount(700, true),
    'high-volume': perAccount(2500, true),
  },
)

/** Freshdesk, by the plan of the account. */
export const freshdesk: Preset<'trial' | 'growth' | 'pro' | 'enterprise', 'requests'> = preset(
  {
    name: 'freshdesk',
    title: 'Freshdesk API',
    sources: [
      page(
        'https://support.freshdesk.com/support/solutions/articles/225439-what-are-the-rate-limits-for-the-api-calls-to-freshdesk',
        '2024-03-14',
      ),
    ],
    headers: [],
    refusal: { status: [429], wait: [], otherwise: '1m' },
    note: 'Creating, updating and listing have lower limits within these.',
  },
  {
    trial: perAccount(50, false),
    growth: perAccount(200, false),
    pro: perAccount(400, false),
    enterprise: perAccount(700, false),
  },
)

/** Intercom, which spreads a minute evenly over windows of 10 s. */
export const intercom: Preset<'default', 'app' | 'workspace'> = preset(
  {
    name: 'intercom',
    title: 'Intercom REST API',
    sources: [
      page('https://developers.intercom.com/docs/references/2.17/rest-api/errors/rate-limiting'),
      page(
        'https://raw.githubusercontent.com/api-evangelist/intercom/refs/heads/main/rate-limits/intercom-rate-limits.yml',
        '2026-09-20',
      ),
    ],
    headers: ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'],
    refusal: { status: [429], wait: ['x-ratelimit-reset'], mark: 'rate_limit_exceeded' },
    note: '10,000 calls a minute for each app and 25,000 for the workspace, in sixths.',
  },
  {
    default: {
      app: { policy: within(1666, '10s', { calibrate: 'headers' }), key: 'the app and the workspace' },
      workspace: { policy: within(4166, '10s'), key: 'the workspace' },
    },
  },
)
