//! Every series in one struct, with closed labels: routes, codes, never a key or a token.
