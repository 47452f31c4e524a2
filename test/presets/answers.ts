/** Answers of APIs, by the examples of their documentation: headers and bodies as facts. */
type Headers = Readonly<Record<string, string>>

/** A refusal, and the wait that it tells: ms from now, an instant, or none. */
export interface Refusal {
  readonly preset: string
  readonly status: number
  readonly headers?: Headers
  readonly body?: unknown
  readonly wait: { readonly ms: number } | { readonly at: string } | 'none'
}

/** An answer that reports a budget, and the units that a calibrated limit of the preset has left then. */
export interface Report {
  readonly preset: string
  readonly limit: string
  readonly headers: Headers
  readonly left: number
}

/** The instant of the tests on the wall clock. */
export const NOW = '2026-01-01T00:00:00Z'
const SOON = String(Date.parse(NOW) / 1000 + 40)

/** One refusal or more of every preset. */
export const REFUSALS: readonly Refusal[] = [
  {
    preset: 'github',
    status: 403,
    headers: {
      'x-ratelimit-limit': '60',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': SOON,
      'x-ratelimit-used': '60',
      'x-ratelimit-resource': 'core',
    },
    wait: { at: '2026-01-01T00:00:40Z' },
  },
  { preset: 'github', status: 429, headers: { 'retry-after': '60' }, wait: { ms: 60_000 } },
  {
    preset: 'github',
    status: 429,
    headers: { 'x-ratelimit-remaining': '4000', 'x-ratelimit-reset': SOON, 'x-ratelimit-used': '1000' },
    wait: { ms: 60_000 },
  },
  {
    preset: 'github-graphql',
    status: 403,
    headers: { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': SOON, 'x-ratelimit-resource': 'graphql' },
    wait: { at: '2026-01-01T00:00:40Z' },
  },
  { preset: 'gitlab', status: 429, body: 'Retry later', wait: { ms: 60_000 } },
  { preset: 'jira', status: 429, headers: { 'Retry-After': '5' }, wait: { ms: 5000 } },
  {
    preset: 'jira',
    status: 429,
    headers: { 'X-RateLimit-Reset': '2026-01-01T00:10Z', 'RateLimit-Reason': 'jira-burst-based' },
    wait: { at: '2026-01-01T00:10:00Z' },
  },
  {
    preset: 'cloudflare',
    status: 429,
    headers: { 'retry-after': '30', Ratelimit: '"default";r=0;t=30' },
    wait: { ms: 30_000 },
  },
  { preset: 'cloudflare', status: 429, wait: { ms: 300_000 } },
  {
    preset: 'digitalocean',
    status: 429,
    headers: { 'ratelimit-limit': '5000', 'ratelimit-remaining': '0', 'ratelimit-reset': '1444931833' },
    wait: { at: '2015-10-15T17:57:13Z' },
  },
  { preset: 'stripe', status: 429, headers: { 'Stripe-Rate-Limited-Reason': 'global-rate' }, wait: { ms: 1000 } },
  {
    preset: 'shopify',
    status: 429,
    headers: { 'Retry-After': '2.0', 'X-Shopify-Shop-Api-Call-Limit': '40/40' },
    wait: { ms: 2000 },
  },
  {
    preset: 'shopify-graphql',
    status: 200,
    body: {
      errors: [{ message: 'Throttled', extensions: { code: 'THROTTLED' } }],
      extensions: { cost: { requestedQueryCost: 752, actualQueryCost: null } },
    },
    wait: { ms: 1000 },
  },
  { preset: 'amazon-sp-api', status: 429, headers: { 'x-amzn-RateLimit-Limit': '0.5' }, wait: 'none' },
  { preset: 'xero', status: 429, headers: { 'Retry-After': '12', 'X-MinLimit-Remaining': '0' }, wait: { ms: 12_000 } },
  { preset: 'klaviyo', status: 429, headers: { 'Retry-After': '1' }, wait: { ms: 1000 } },
  { preset: 'hubspot', status: 429, wait: { ms: 10_000 } },
  {
    preset: 'salesforce',
    status: 403,
    body: [
      { errorCode: 'REQUEST_LIMIT_EXCEEDED', message: 'ConcurrentRequests (Concurrent API Requests) Limit exceeded.' },
    ],
    wait: 'none',
  },
  {
    preset: 'salesforce',
    status: 500,
    body: '<faultcode>sf:REQUEST_LIMIT_EXCEEDED</faultcode>',
    wait: 'none',
  },
  {
    preset: 'zendesk',
    status: 429,
    headers: { 'retry-after': '93', 'x-rate-limit': '700', 'x-rate-limit-remaining': '0' },
    wait: { ms: 93_000 },
  },
  { preset: 'freshdesk', status: 429, wait: { ms: 60_000 } },
  {
    preset: 'intercom',
    status: 429,
    headers: { 'X-RateLimit-Limit': '167', 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': '1487332520' },
    body: { errors: [{ code: 'rate_limit_exceeded', message: 'Exceeded rate limit of 167 in 10_seconds' }] },
    wait: { at: '2017-02-17T11:55:20Z' },
  },
  { preset: 'slack', status: 429, headers: { 'Retry-After': '30' }, wait: { ms: 30_000 } },
  {
    preset: 'discord',
    status: 429,
    headers: {
      'Retry-After': '65',
      'X-RateLimit-Limit': '10',
      'X-RateLimit-Remaining': '0',
      'X-RateLimit-Reset': '1470173023.123',
      'X-RateLimit-Reset-After': '64.57',
      'X-RateLimit-Bucket': 'abcd1234',
      'X-RateLimit-Scope': 'user',
    },
    body: { message: 'You are being rate limited.', retry_after: 64.57, global: false },
    wait: { ms: 65_000 },
  },
  {
    preset: 'discord',
    status: 429,
    headers: { 'Retry-After': '65', 'X-RateLimit-Global': 'true', 'X-RateLimit-Scope': 'global' },
    wait: { ms: 65_000 },
  },
  { preset: 'twilio', status: 429, body: { code: 20429 }, wait: { ms: 1000 } },
  {
    preset: 'sendgrid',
    status: 429,
    headers: { 'X-RateLimit-Limit': '150', 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': '1392815263' },
    body: { errors: [{ field: null, message: 'too many requests' }] },
    wait: { at: '2014-02-19T13:07:43Z' },
  },
  {
    preset: 'resend',
    status: 429,
    headers: { 'retry-after': '1', 'ratelimit-remaining': '0', 'ratelimit-reset': '1' },
    wait: { ms: 1000 },
  },
  {
    preset: 'notion',
    status: 429,
    headers: { 'Retry-After': '3' },
    body: { code: 'rate_limited' },
    wait: { ms: 3000 },
  },
  {
    preset: 'notion',
    status: 529,
    headers: { 'Retry-After': '10' },
    body: { code: 'service_overload' },
    wait: { ms: 10_000 },
  },
  { preset: 'airtable', status: 429, wait: { ms: 30_000 } },
  { preset: 'google-sheets', status: 429, body: 'Too many requests', wait: { ms: 60_000 } },
  {
    preset: 'microsoft-graph',
    status: 429,
    headers: { 'Retry-After': '10' },
    body: { error: { code: 'TooManyRequests' } },
    wait: { ms: 10_000 },
  },
  {
    preset: 'asana',
    status: 429,
    headers: { 'Retry-After': '30' },
    body: { errors: [{ message: 'a rate limit was hit' }] },
    wait: { ms: 30_000 },
  },
  {
    preset: 'clickup',
    status: 429,
    headers: { 'X-RateLimit-Limit': '100', 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': SOON },
    wait: { at: '2026-01-01T00:00:40Z' },
  },
  {
    preset: 'openai',
    status: 429,
    headers: {
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-remaining-tokens': '0',
      'x-ratelimit-reset-requests': '1s',
      'x-ratelimit-reset-tokens': '6m0s',
    },
    wait: { ms: 360_000 },
  },
  {
    preset: 'anthropic',
    status: 429,
    headers: { 'retry-after': '20', 'anthropic-ratelimit-requests-remaining': '0' },
    body: { type: 'error', error: { type: 'rate_limit_error' } },
    wait: { ms: 20_000 },
  },
  {
    preset: 'anthropic',
    status: 429,
    body: {
      type: 'error',
      error: { type: 'rate_limit_error', details: { error_code: 'enforced_spend_limit_reached' } },
    },
    wait: 'none',
  },
  { preset: 'gemini', status: 429, body: { error: { code: 429, status: 'RESOURCE_EXHAUSTED' } }, wait: { ms: 60_000 } },
]

/** A report of every preset that calibrates. Instants lie ahead of the tests' clock. */
export const REPORTS: readonly Report[] = [
  {
    preset: 'github',
    limit: 'requests',
    headers: {
      'x-ratelimit-limit': '60',
      'x-ratelimit-remaining': '12',
      'x-ratelimit-reset': SOON,
      'x-ratelimit-used': '48',
    },
    left: 12,
  },
  {
    preset: 'github-graphql',
    limit: 'points',
    headers: { 'x-ratelimit-limit': '5000', 'x-ratelimit-remaining': '17', 'x-ratelimit-reset': SOON },
    left: 17,
  },
  {
    preset: 'cloudflare',
    limit: 'user',
    headers: { Ratelimit: '"default";r=50;t=30', 'Ratelimit-Policy': '"burst";q=100;w=60' },
    left: 50,
  },
  {
    preset: 'digitalocean',
    limit: 'hour',
    headers: { 'ratelimit-limit': '5000', 'ratelimit-remaining': '4816', 'ratelimit-reset': SOON },
    left: 4816,
  },
  { preset: 'shopify', limit: 'calls', headers: { 'X-Shopify-Shop-Api-Call-Limit': '39/40' }, left: 1 },
  { preset: 'xero', limit: 'minute', headers: { 'X-MinLimit-Remaining': '31' }, left: 31 },
  { preset: 'xero', limit: 'day', headers: { 'X-DayLimit-Remaining': '4111' }, left: 4111 },
  { preset: 'xero', limit: 'app', headers: { 'X-AppMinLimit-Remaining': '9000' }, left: 9000 },
  {
    preset: 'klaviyo',
    limit: 'steady',
    headers: { 'RateLimit-Limit': '15', 'RateLimit-Remaining': '4', 'RateLimit-Reset': '30' },
    left: 4,
  },
  {
    preset: 'hubspot',
    limit: 'daily',
    headers: { 'X-HubSpot-RateLimit-Daily': '650000', 'X-HubSpot-RateLimit-Daily-Remaining': '1000' },
    left: 1000,
  },
  {
    preset: 'zendesk',
    limit: 'requests',
    headers: {
      'x-rate-limit': '700',
      'x-rate-limit-remaining': '99',
      'ratelimit-limit': '700',
      'ratelimit-remaining': '99',
      'ratelimit-reset': '41',
    },
    left: 99,
  },
  {
    preset: 'zendesk',
    limit: 'requests',
    headers: { 'X-Rate-Limit': '700', 'X-Rate-Limit-Remaining': '99' },
    left: 99,
  },
  {
    preset: 'intercom',
    limit: 'app',
    headers: { 'X-RateLimit-Limit': '167', 'X-RateLimit-Remaining': '166', 'X-RateLimit-Reset': SOON },
    left: 166,
  },
  {
    preset: 'sendgrid',
    limit: 'requests',
    headers: { 'X-RateLimit-Limit': '500', 'X-RateLimit-Remaining': '499', 'X-RateLimit-Reset': SOON },
    left: 499,
  },
  {
    preset: 'resend',
    limit: 'requests',
    headers: { 'ratelimit-limit': '2', 'ratelimit-remaining': '0', 'ratelimit-reset': '1' },
    left: 0,
  },
  {
    preset: 'clickup',
    limit: 'requests',
    headers: { 'X-RateLimit-Limit': '100', 'X-RateLimit-Remaining': '42', 'X-RateLimit-Reset': SOON },
    left: 42,
  },
  {
    preset: 'openai',
    limit: 'requests',
    headers: {
      'x-ratelimit-limit-requests': '5000',
      'x-ratelimit-limit-tokens': '160000',
      'x-ratelimit-remaining-requests': '499',
      'x-ratelimit-remaining-tokens': '159',
      'x-ratelimit-reset-requests': '12ms',
      'x-ratelimit-reset-tokens': '9ms',
    },
    left: 499,
  },
  {
    preset: 'openai',
    limit: 'tokens',
    headers: {
      'x-ratelimit-remaining-requests': '499',
      'x-ratelimit-remaining-tokens': '159',
      'x-ratelimit-reset-tokens': '6m0s',
    },
    left: 159,
  },
  {
    preset: 'anthropic',
    limit: 'requests',
    headers: {
      'anthropic-ratelimit-requests-limit': '1000',
      'anthropic-ratelimit-requests-remaining': '99',
      'anthropic-ratelimit-requests-reset': '2026-01-01T00:00:40Z',
      'anthropic-ratelimit-input-tokens-remaining': '800',
    },
    left: 99,
  },
  {
    preset: 'anthropic',
    limit: 'output',
    headers: {
      'anthropic-ratelimit-output-tokens-remaining': '160',
      'anthropic-ratelimit-output-tokens-reset': '2026-01-01T00:00:01Z',
    },
    left: 160,
  },
]
