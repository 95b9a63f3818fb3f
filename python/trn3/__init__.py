"""trn3: an emulator of AWS Trainium3."""
